// What a DistributedOptimizer computes: the same as one process with all the data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "core/testing/scratch.h"
#include "frameworks/tests/libtorch/nets.h"
#include "frameworks/tests/libtorch/ranks.h"

namespace xoe::torch_test {
namespace {

std::vector<at::Tensor> train_alone(Training training, int ranks) {
  training.batch *= ranks * training.options.backward_passes_per_step;
  training.options = {};
  return on_ranks(1, [&](Communicator& comm) { return train(training, comm); }).front();
}

std::vector<std::vector<at::Tensor>> train_together(const Training& training, int ranks) {
  return on_ranks(ranks, [&](Communicator& comm) { return train(training, comm); });
}

TEST(Training, FollowsOneRankWithTheJoinedBatch) {
  for (const int ranks : {2, 3}) {
    Training training{.steps = 50};
    training.options.first_bucket_bytes = 256;
    training.options.bucket_bytes = 4096;
    const auto together = train_together(training, ranks);
    EXPECT_LT(largest_difference(together[0], train_alone(training, ranks)), 1e-5) << ranks;
    for (const auto& rank : together) EXPECT_TRUE(equal_bits(rank, together[0]));
    for (const auto& rank : train_together(training, ranks)) EXPECT_TRUE(equal_bits(rank, together[0]));
  }
}

TEST(Training, CopiedGradientsGiveTheSameBits) {
  Training training;
  const auto views = train_together(training, 2);
  training.options.gradient_views = false;
  EXPECT_TRUE(equal_bits(train_together(training, 2)[1], views[0]));
}

TEST(Training, BucketSizeDoesNotChangeBits) {
  Training training;
  const auto one = train_together(training, 3);
  training.options.first_bucket_bytes = 1;
  training.options.bucket_bytes = 1;
  EXPECT_TRUE(equal_bits(train_together(training, 3)[0], one[0]));
}

TEST(Training, SumIsAverageTimesSize) {
  Training training{.make_optimizer = [](std::vector<at::Tensor> parameters) {
    return std::make_unique<::torch::optim::SGD>(std::move(parameters), ::torch::optim::SGDOptions(0.04));
  }};
  const auto average = train_together(training, 2);
  training.make_optimizer = [](std::vector<at::Tensor> parameters) {
    return std::make_unique<::torch::optim::SGD>(std::move(parameters), ::torch::optim::SGDOptions(0.02));
  };
  training.options.op = ReduceOp::kSum;
  EXPECT_LT(largest_difference(train_together(training, 2)[0], average[0]), 1e-6);
}

TEST(Training, AccumulatedPassesAreOneLargeBatch) {
  for (const bool sharded : {false, true}) {
    Training training{.batch = 2};
    training.options.backward_passes_per_step = 3;
    training.options.average_passes = true;
    training.options.sharded = sharded;
    const auto together = train_together(training, 2);
    EXPECT_LT(largest_difference(together[0], train_alone(training, 2)), 1e-5);
  }
}

TEST(Training, AccumulatedPassesAreSummedByDefault) {
  const auto gradients = on_ranks(2, [](Communicator& comm) {
    Net net;
    ::torch::optim::SGD wrapped(net.parameters(), 0.1);
    auto optimizer = torch::DistributedOptimizer::create(wrapped, net, comm, {.backward_passes_per_step = 2}).value();
    const Batch batch = batch_at(0, comm.rank(), 1);
    loss_of(net.forward(batch.images), batch.targets).backward();
    const at::Tensor once = net.fc2.grad().clone();
    loss_of(net.forward(batch.images), batch.targets).backward();
    ok(optimizer.synchronize());
    return std::vector<at::Tensor>{once, net.fc2.grad().clone()};
  });
  const at::Tensor expected = gradients[0][0] + gradients[1][0];
  EXPECT_TRUE(at::allclose(gradients[0][1], expected)) << "two passes over two ranks, averaged over ranks";
}

TEST(Training, OtherTypes) {
  for (const at::ScalarType type : {at::kDouble, at::kBFloat16}) {
    for (const bool sharded : {false, true}) {
      Training training{.steps = 5, .type = type};
      training.options.sharded = sharded;
      const auto together = train_together(training, 2);
      EXPECT_TRUE(equal_bits(together[0], together[1]));
      EXPECT_EQ(together[0][0].scalar_type(), type);
    }
  }
}

TEST(Training, MixedTypesAndStridesInOneModel) {
  struct Mixed : ::torch::nn::Module {
    Mixed() {
      a = register_parameter("a", pattern({7, 9}, 1));
      b = register_parameter("b", pattern({7, 9}, 2).to(at::kDouble));
      c = register_parameter("c", pattern({7, 9}, 3).to(at::kBFloat16));
      gap = register_parameter("gap", pattern({7, 18}, 4).slice(1, 0, 18, 2));
    }
    at::Tensor a, b, c, gap;
  };
  for (const bool sharded : {false, true}) {
    const auto results = on_ranks(2, [&](Communicator& comm) {
      Mixed mixed;
      ::torch::optim::SGD wrapped(mixed.parameters(), 1.0);
      auto optimizer = torch::DistributedOptimizer::create(wrapped, mixed, comm, {.sharded = sharded}).value();
      EXPECT_EQ(optimizer.bucket_count(), 3);
      const double scale = comm.rank() + 1;
      ((mixed.a.to(at::kDouble) + mixed.gap.to(at::kDouble) + mixed.b + mixed.c.to(at::kDouble)) * scale)
          .sum()
          .backward();
      ok(optimizer.step());
      ok(optimizer.close());
      return snapshot(mixed);
    });
    EXPECT_TRUE(at::allclose(results[1][0], pattern({7, 9}, 1) - 1.5));
    EXPECT_TRUE(at::allclose(results[1][1], pattern({7, 9}, 2).to(at::kDouble) - 1.5));
    EXPECT_TRUE(at::allclose(results[1][3], pattern({7, 18}, 4).slice(1, 0, 18, 2) - 1.5));
    EXPECT_TRUE(at::equal(results[1][2], pattern({7, 9}, 3).to(at::kBFloat16) - 1.5));
  }
}

TEST(Training, GradientsAreViewsWithTheParametersStrides) {
  on_ranks(2, [](Communicator& comm) {
    Net net;
    ::torch::optim::SGD wrapped(net.parameters(), 0.1);
    auto optimizer = torch::DistributedOptimizer::create(wrapped, net, comm).value();
    const void* place = nullptr;
    for (int step = 0; step < 3; ++step) {
      // Three ways to reset gradients; the views come back after each.
      if (step == 0) ok(optimizer.zero_grad());
      if (step == 1) net.zero_grad();
      if (step == 2) ok(optimizer.zero_grad(/*set_to_none=*/false));
      const Batch batch = batch_at(step, comm.rank(), 1);
      loss_of(net.forward(batch.images, true), batch.targets).backward();
      if (step == 0) place = net.conv2.grad().data_ptr();
      EXPECT_EQ(net.conv2.grad().data_ptr(), place);
      EXPECT_EQ(net.conv2.grad().strides(), net.conv2.strides());
      EXPECT_FALSE(net.conv2.grad().is_contiguous());
      ok(optimizer.step());
    }
    return 0;
  });
}

// Tensors without data stand for those of a GPU: what would copy them to the host fails.
TEST(Training, ALoneRanksGradientsStayOnTheirDevice) {
  on_ranks(1, [](Communicator& comm) {
    ::torch::nn::Module module;
    const at::Tensor weight = module.register_parameter("weight", at::empty({3, 4}, at::kMeta));
    ::torch::optim::SGD wrapped({weight}, 0.1);
    auto optimizer = torch::DistributedOptimizer::create(wrapped, module, comm).value();
    for (int step = 0; step < 3; ++step) {
      if (step == 1) ok(optimizer.zero_grad());
      (weight * 2).sum().backward();
      ok(optimizer.step());
      EXPECT_TRUE(weight.grad().is_meta());
    }
    return 0;
  });
}

TEST(Training, ZeroGradKeepsNothingOfTheLastStep) {
  const auto results = on_ranks(2, [](Communicator& comm) {
    Net net;
    ::torch::optim::SGD wrapped(net.parameters(), 0.0);
    auto optimizer = torch::DistributedOptimizer::create(wrapped, net, comm).value();
    const Batch batch = batch_at(0, comm.rank(), 1);
    std::vector<at::Tensor> seen;
    for (int step = 0; step < 4; ++step) {
      if (step % 2 == 0) ok(optimizer.zero_grad(step == 2));
      if (step % 2 == 1) net.zero_grad(step == 1);
      loss_of(net.forward(batch.images), batch.targets).backward();
      ok(optimizer.synchronize());
      seen.push_back(net.fc1.grad().clone());
      ok(optimizer.step());
    }
    return seen;
  });
  for (const at::Tensor& gradient : results[1]) EXPECT_TRUE(at::equal(gradient, results[0][0]));
}

TEST(Training, DiscardedStepLeavesNoTrace) {
  const auto results = on_ranks(2, [](Communicator& comm) {
    std::vector<at::Tensor> both;
    for (const bool detour : {false, true}) {
      Net net;
      const auto wrapped = sgd()(net.parameters());
      auto optimizer = torch::DistributedOptimizer::create(*wrapped, net, comm).value();
      for (int step = 0; step < 4; ++step) {
        if (detour) {  // unused parameters differ between ranks
          const Batch other = batch_at(50 + step, comm.rank(), 1);
          loss_of(net.forward(other.images, comm.rank() == 1), other.targets).backward();
        }
        if (step % 2 == 1) net.zero_grad();
        ok(optimizer.zero_grad());
        const Batch batch = batch_at(step, comm.rank(), 1);
        loss_of(net.forward(batch.images, true), batch.targets).backward();
        ok(optimizer.step());
      }
      both.push_back(net.fc1.detach().clone());
    }
    return both;
  });
  EXPECT_TRUE(at::equal(results[0][0], results[0][1]));
}

TEST(Training, ClosureGivesTheJointLoss) {
  const auto losses = on_ranks(2, [](Communicator& comm) {
    Net net;
    const auto wrapped = sgd()(net.parameters());
    auto optimizer = torch::DistributedOptimizer::create(*wrapped, net, comm).value();
    const Batch batch = batch_at(0, comm.rank(), 1);
    std::vector<double> result;
    for (int step = 0; step < 5; ++step) {
      const auto loss = optimizer.step([&] {
        ok(optimizer.zero_grad());
        at::Tensor value = loss_of(net.forward(batch.images, true), batch.targets);
        value.backward();
        return value;
      });
      result.push_back(loss.value().item<double>());
    }
    return result;
  });
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_LT(losses[0].back(), losses[0].front());
}

TEST(Training, ClippedNormIsTheJointOne) {
  for (const bool sharded : {false, true}) {
    const auto norms = on_ranks(3, [&](Communicator& comm) {
      Net net;
      ::torch::optim::SGD wrapped(net.parameters(), 1.0);
      auto optimizer = torch::DistributedOptimizer::create(wrapped, net, comm, {.sharded = sharded}).value();
      const auto before = snapshot(net);
      const Batch batch = batch_at(0, comm.rank(), 1);
      loss_of(net.forward(batch.images, true), batch.targets).backward();
      const double norm = optimizer.clip_grad_norm(1e-3).value();
      ok(optimizer.step());
      double moved = 0;
      const auto after = snapshot(net);
      for (std::size_t i = 0; i < after.size(); ++i) moved += (after[i] - before[i]).square().sum().item<double>();
      EXPECT_NEAR(std::sqrt(moved), 1e-3, 1e-5);
      ok(optimizer.close());
      return norm;
    });
    EXPECT_GT(norms[0], 1e-2);
    EXPECT_EQ(norms[0], norms[2]);
  }
}

// The same numbers as clipping the mean of all ranks' gradients by hand.
TEST(Training, GradientsAreClippedByValue) {
  constexpr double kLargest = 1e-3;
  for (const bool sharded : {false, true}) {
    on_ranks(3, [&](Communicator& comm) {
      const Batch batch = batch_at(0, comm.rank(), 1);
      // A step at a rate of 1, without momentum, subtracts the gradients, clipped or not.
      const auto moves = [&](bool clips) {
        Net net;
        ::torch::optim::SGD wrapped(net.parameters(), 1.0);
        auto optimizer = torch::DistributedOptimizer::create(wrapped, net, comm, {.sharded = sharded}).value();
        std::vector<at::Tensor> moved = snapshot(net);
        loss_of(net.forward(batch.images, true), batch.targets).backward();
        EXPECT_EQ(optimizer.clip_grad_value(0).error().code(), Code::kInvalidArgument);
        if (clips) ok(optimizer.clip_grad_value(kLargest));
        ok(optimizer.step());
        const auto after = snapshot(net);
        for (std::size_t i = 0; i < after.size(); ++i) moved[i] = moved[i] - after[i];
        ok(optimizer.close());
        return moved;
      };
      const auto free = moves(false), clipped = moves(true);
      bool some = false;
      for (std::size_t i = 0; i < free.size(); ++i) {
        some = some || free[i].abs().max().item<double>() > kLargest;
        EXPECT_TRUE(at::allclose(clipped[i], free[i].clamp(-kLargest, kLargest), 1e-3, 1e-6)) << i;
      }
      EXPECT_TRUE(some);
      return 0;
    });
  }
}

// Two optimizers of one engine, as of a generator and its critic, in another order on each rank.
TEST(Training, OptimizersShareAnEngine) {
  const auto train_both = [](bool shared) {
    return on_ranks(2, [&](Communicator& comm) {
      const auto engine = Engine::create(*comm.split(0).value()).value();
      Net nets[2] = {Net(1), Net(50)};
      std::vector<std::unique_ptr<::torch::optim::Optimizer>> wrapped;
      std::vector<torch::DistributedOptimizer> optimizers;
      for (Net& net : nets) {
        wrapped.push_back(sgd()(net.parameters()));
        optimizers.push_back(
            torch::DistributedOptimizer::create(*wrapped.back(), net, comm,
                                                {.bucket_bytes = 4096, .engine = shared ? engine.get() : nullptr})
                .value());
      }
      for (int step = 0; step < 4; ++step) {
        for (const int i : comm.rank() == 0 ? std::vector{0, 1} : std::vector{1, 0}) {
          ok(optimizers[static_cast<std::size_t>(i)].zero_grad());
          const Batch batch = batch_at(step, comm.rank(), 2);
          loss_of(nets[i].forward(batch.images, true), batch.targets).backward();
        }
        for (torch::DistributedOptimizer& optimizer : optimizers) ok(optimizer.step());
      }
      EXPECT_THAT(engine->metrics(),
                  ::testing::ContainsRegex(shared ? "\nxoe_steps_total[^\n]* 8\n" : "\nxoe_steps_total[^\n]* 0\n"));
      auto both = snapshot(nets[0]);
      for (at::Tensor& one : snapshot(nets[1])) both.push_back(std::move(one));
      return both;
    });
  };
  const auto shared = train_both(true);
  EXPECT_TRUE(equal_bits(shared[0], shared[1]));
  EXPECT_TRUE(equal_bits(shared[0], train_both(false)[0]));
}

TEST(Training, TheEnginesTimelineShowsEachBucket) {
  const Scratch scratch;
  const std::string path = scratch.file("timeline.json");
  on_ranks(2, [&](Communicator& comm) {
    const auto engine = Engine::create(*comm.split(0).value()).value();
    ok(engine->start_timeline(path));
    Net net;
    ::torch::optim::SGD wrapped(net.parameters(), 0.1);
    torch::DistributedOptions options{.bucket_bytes = 1, .first_bucket_bytes = 1, .engine = engine.get()};
    auto optimizer = torch::DistributedOptimizer::create(wrapped, net, comm, options).value();
    EXPECT_EQ(optimizer.bucket_count(), 7);
    const Batch batch = batch_at(0, comm.rank(), 1);
    loss_of(net.forward(batch.images, true), batch.targets).backward();
    ok(optimizer.step());
    EXPECT_GT(optimizer.waited().count(), 0);
    ok(engine->stop_timeline());
    return 0;
  });
  std::ifstream file(path);
  const std::string trace{std::istreambuf_iterator<char>(file), {}};
  // From the last parameter to the first.
  for (const char* name : {"bucket 0 (fc2_weight)", "bucket 1 (branch_weight)", "bucket 6 (conv1_weight)"})
    EXPECT_NE(trace.find(name), std::string::npos) << name;
}

TEST(Training, CompressedGradientsTrainAlike) {
  Training training{.steps = 30};
  const auto exact = train_together(training, 2);
  for (const Compression kind : {Compression::kBfloat16, Compression::kTopK, Compression::kPowerSgd}) {
    training.options.compression = {.kind = kind, .top_k_ratio = 0.5};
    const auto compressed = train_together(training, 2);
    EXPECT_TRUE(equal_bits(compressed[0], compressed[1]));
    EXPECT_GT(largest_difference(compressed[0], exact[0]), 0) << compression_name(kind);
    EXPECT_LT(largest_difference(compressed[0], exact[0]), 0.1) << compression_name(kind);
  }
}

TEST(Training, StepsThatOverlapHaveTheSameBits) {
  for (const MakeOptimizer& make : {sgd(), adamw()})
    for (const int ranks : {1, 2, 3}) {
      Training training{.make_optimizer = make, .steps = 4};
      training.options.bucket_bytes = 4096;
      training.options.backward_passes_per_step = 2;
      const auto one_after_the_other = train_together(training, ranks);
      training.options.overlap_step = true;
      EXPECT_TRUE(equal_bits(train_together(training, ranks)[0], one_after_the_other[0]));
    }
}

// Each rank's step is its own, and the steps are combined: against one that is computed by hand.
TEST(Training, AdasumCombinesSteps) {
  for (const bool with_closure : {false, true}) {
    const auto results = on_ranks(2, [&](Communicator& comm) {
      Net net;
      ::torch::optim::SGD wrapped(net.parameters(), 0.1);
      auto optimizer = torch::DistributedOptimizer::create(wrapped, net, comm, {.adasum = true}).value();
      const auto backward = [&] {
        const Batch batch = batch_at(0, comm.rank(), 1);
        const at::Tensor loss = loss_of(net.forward(batch.images, true), batch.targets);
        loss.backward();
        return loss;
      };
      if (with_closure) {
        static_cast<void>(optimizer.step(backward).value());
      } else {
        backward();
        ok(optimizer.step());
      }
      std::vector<at::Tensor> own;  // this rank's change
      for (const at::Tensor& parameter : net.parameters()) own.push_back(parameter.grad() * -0.1);
      std::vector<at::Tensor> found = snapshot(net);
      found.insert(found.end(), own.begin(), own.end());
      return found;
    });
    const auto starts = snapshot(Net());
    for (std::size_t i = 0; i < starts.size(); ++i) {
      EXPECT_TRUE(at::equal(results[0][i], results[1][i]));
      const at::Tensor a = results[0][starts.size() + i].to(at::kDouble),
                       b = results[1][starts.size() + i].to(at::kDouble);
      const at::Tensor dot = (a * b).sum();
      const at::Tensor combined = a * (1 - dot / (2 * a.square().sum())) + b * (1 - dot / (2 * b.square().sum()));
      EXPECT_TRUE(at::allclose(results[0][i], (starts[i].to(at::kDouble) + combined).to(at::kFloat), 1e-5, 1e-6)) << i;
    }
  }
}

TEST(Training, OtherParametersAreRefused) {
  const auto replace = [](::torch::optim::Optimizer& wrapped) {
    at::Tensor& first = wrapped.param_groups()[0].params()[0];
    first = first.detach().clone().requires_grad_(true);
  };
  const auto add = [](::torch::optim::Optimizer& wrapped) {
    wrapped.param_groups()[0].params().push_back(at::ones({2}).requires_grad_(true));
  };
  const auto remove = [](::torch::optim::Optimizer& wrapped) { wrapped.param_groups()[0].params().pop_back(); };
  using Change = std::function<void(::torch::optim::Optimizer&)>;
  for (const Change& change : {Change(replace), Change(add), Change(remove)}) {
    on_ranks(2, [&](Communicator& comm) {
      Net net;
      ::torch::optim::SGD wrapped(net.parameters(), 0.1);
      auto optimizer = torch::DistributedOptimizer::create(wrapped, net, comm).value();
      const Batch batch = batch_at(0, comm.rank(), 1);
      loss_of(net.forward(batch.images, true), batch.targets).backward();
      ok(optimizer.step());
      change(wrapped);
      const Status status = optimizer.step();
      EXPECT_FALSE(status);
      EXPECT_THAT(status.error().message(), ::testing::HasSubstr("the optimizer has other parameters now"));
      return 0;
    });
  }
}

TEST(Training, GradientsOfALoneRankStayWhereTheyAre) {
  on_ranks(1, [](Communicator& comm) {
    Net net;
    ::torch::optim::SGD wrapped(net.parameters(), 0.1);
    auto optimizer =
        torch::DistributedOptimizer::create(
            wrapped, net, comm, {.backward_passes_per_step = 2, .average_passes = true, .find_unused = false})
            .value();
    EXPECT_EQ(optimizer.bucket_count(), 0);
    const Batch batch = batch_at(0, 0, 1);
    const auto backward = [&] { loss_of(net.forward(batch.images), batch.targets).backward(); };
    backward();
    const at::Tensor once = net.fc1.grad().clone();
    const void* const place = net.fc1.grad().data_ptr();
    backward();
    ok(optimizer.synchronize());
    EXPECT_EQ(net.fc1.grad().data_ptr(), place);
    EXPECT_TRUE(at::allclose(net.fc1.grad(), once));
    EXPECT_TRUE(at::equal(net.branch.grad(), at::zeros_like(net.branch))) << "unused";
    ok(optimizer.step());
    backward();
    backward();
    backward();
    const Status status = optimizer.step();
    EXPECT_FALSE(status);
    EXPECT_NE(status.error().message().find("raise backward_passes_per_step"), std::string::npos);
    return 0;
  });
}

}  // namespace
}  // namespace xoe::torch_test

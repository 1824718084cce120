// The sharded optimizer: one copy of the parameters, the same numbers.
#include <gtest/gtest.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/serialize/archive.h>

#include <sstream>

#include "frameworks/tests/libtorch/nets.h"
#include "frameworks/tests/libtorch/ranks.h"

namespace xoe::torch_test {
namespace {

namespace optim = ::torch::optim;
using torch::DistributedOptimizer;

std::vector<at::Tensor> train_on(int ranks, const Training& training) {
  const auto results = on_ranks(ranks, [&](Communicator& comm) { return train(training, comm); });
  for (const auto& rank : results) EXPECT_TRUE(equal_bits(rank, results[0]));
  return results[0];
}

MakeOptimizer rmsprop() {
  return [](std::vector<at::Tensor> parameters) {
    return std::make_unique<optim::RMSprop>(std::move(parameters),
                                            optim::RMSpropOptions(1e-3).momentum(0.9).centered(true));
  };
}

MakeOptimizer adagrad() {
  return [](std::vector<at::Tensor> parameters) {
    return std::make_unique<optim::Adagrad>(std::move(parameters), optim::AdagradOptions(0.01));
  };
}

TEST(Sharded, SameBitsAsUnsharded) {
  for (const auto& make : {sgd(), adamw(), rmsprop(), adagrad()}) {
    for (const int ranks : {1, 2, 3}) {
      Training training{.make_optimizer = make, .steps = 20};
      training.options.bucket_bytes = 8192;
      const auto whole = train_on(ranks, training);
      training.options.sharded = true;
      EXPECT_TRUE(equal_bits(train_on(ranks, training), whole)) << ranks;
    }
  }
}

TEST(Sharded, OneCopyForAllRanksAndPartOfTheState) {
  std::atomic<const float*> place = nullptr;
  std::atomic<std::int64_t> state_elements = 0;
  on_ranks(2, [&](Communicator& comm) {
    Net net(1 + comm.rank());
    const auto wrapped = adamw()(net.parameters());
    auto optimizer = DistributedOptimizer::create(*wrapped, net, comm, {.sharded = true}).value();
    EXPECT_TRUE(equal_bits(snapshot(net), snapshot(Net(1)))) << "rank 0's values";
    // Ranks that are threads map the memory at the same place.
    if (comm.rank() == 0) place = net.fc1.data_ptr<float>();
    ok(comm.barrier());
    EXPECT_EQ(net.fc1.data_ptr<float>(), place);
    const Batch batch = batch_at(0, comm.rank(), 1);
    loss_of(net.forward(batch.images, true), batch.targets).backward();
    ok(optimizer.step());
    for (const auto& part : wrapped->param_groups()[0].params()) state_elements += part.numel();
    EXPECT_FALSE(net.fc1.grad().defined());
    ok(comm.barrier());
    std::int64_t elements = 0;
    for (const auto& parameter : net.parameters()) elements += parameter.numel();
    EXPECT_EQ(state_elements, elements);
    ok(optimizer.close());
    EXPECT_EQ(wrapped->param_groups()[0].params().size(), net.parameters().size());
    return 0;
  });
}

TEST(Sharded, GroupsKeepTheirOptions) {
  const auto run = [](bool sharded) {
    return on_ranks(2, [&](Communicator& comm) {
      Net net;
      std::vector<optim::OptimizerParamGroup> groups;
      groups.emplace_back(std::vector<at::Tensor>{net.conv1, net.conv2, net.fc2});
      groups.emplace_back(std::vector<at::Tensor>{net.conv1_bias, net.fc1, net.fc1_bias, net.branch},
                          std::make_unique<optim::SGDOptions>(optim::SGDOptions(0.001).momentum(0.5)));
      optim::SGD wrapped(groups, optim::SGDOptions(0.1).momentum(0.9));
      auto optimizer = DistributedOptimizer::create(wrapped, net, comm, {.sharded = sharded}).value();
      for (int step = 0; step < 5; ++step) {
        wrapped.param_groups()[1].options().set_lr(0.001 * step);
        ok(optimizer.zero_grad());
        const Batch batch = batch_at(step, comm.rank(), 1);
        loss_of(net.forward(batch.images, true), batch.targets).backward();
        ok(optimizer.step());
      }
      return snapshot(net);
    });
  };
  EXPECT_TRUE(equal_bits(run(true)[1], run(false)[0]));
}

struct Checkpoint {
  std::vector<at::Tensor> parameters;
  std::string optimizer;  // an archive
};

// Trains steps [first, last), from `start` if given.
Checkpoint train_part(int ranks, bool sharded, const MakeOptimizer& make, int first, int last,
                      const Checkpoint* start) {
  return on_ranks(ranks,
                  [&](Communicator& comm) {
                    const at::NoGradGuard no_grad;
                    Net net;
                    if (start != nullptr) {
                      const auto parameters = net.parameters();
                      for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].copy_(start->parameters[i]);
                    }
                    const auto wrapped = make(net.parameters());
                    auto optimizer = DistributedOptimizer::create(*wrapped, net, comm, {.sharded = sharded}).value();
                    if (start != nullptr) {
                      ::torch::serialize::InputArchive archive;
                      std::istringstream stream(start->optimizer);
                      archive.load_from(stream);
                      ok(optimizer.load_state(archive));
                    }
                    for (int step = first; step < last; ++step) {
                      const at::AutoGradMode grad(true);
                      ok(optimizer.zero_grad());
                      const int samples = 12 / comm.size();  // the same joint batch for any number of ranks
                      const Batch batch = batch_at(step, comm.rank() * samples, samples);
                      loss_of(net.forward(batch.images, true), batch.targets).backward();
                      ok(optimizer.step());
                    }
                    Checkpoint result;
                    ::torch::serialize::OutputArchive archive;
                    ok(optimizer.save_state(archive));
                    std::ostringstream stream;
                    if (comm.rank() == 0) archive.save_to(stream);
                    result.optimizer = stream.str();
                    ok(optimizer.close());
                    result.parameters = snapshot(net);
                    return result;
                  })
      .front();
}

TEST(Sharded, CheckpointsFitAnyNumberOfRanks) {
  for (const auto& make : {sgd(), adamw(), adagrad()}) {
    const Checkpoint straight = train_part(2, false, make, 0, 6, nullptr);
    const Checkpoint sharded = train_part(2, true, make, 0, 3, nullptr);
    const Checkpoint whole = train_part(2, false, make, 0, 3, nullptr);
    for (const Checkpoint* half : {&sharded, &whole}) {
      for (const bool resume_sharded : {false, true}) {
        const auto resumed = train_part(2, resume_sharded, make, 3, 6, half);
        EXPECT_TRUE(equal_bits(resumed.parameters, straight.parameters));
        const auto others = train_part(3, resume_sharded, make, 3, 6, half);
        EXPECT_LT(largest_difference(others.parameters, straight.parameters), 1e-4);
      }
    }
  }
}

TEST(Sharded, StateThatWasThereIsTakenOverAndGivenBack) {
  on_ranks(2, [](Communicator& comm) {
    Net net;
    const auto wrapped = adamw()(net.parameters());
    const auto one_step = [&](int step) {
      const Batch batch = batch_at(step, comm.rank(), 1);
      loss_of(net.forward(batch.images, true), batch.targets).backward();
    };
    for (int step = 0; step < 6; ++step) {
      auto optimizer = DistributedOptimizer::create(*wrapped, net, comm, {.sharded = step % 2 == 1}).value();
      ok(optimizer.zero_grad());
      one_step(step);
      ok(optimizer.step());
      ok(optimizer.close());
    }
    Training straight{.make_optimizer = adamw(), .steps = 6, .batch = 1};
    EXPECT_TRUE(equal_bits(snapshot(net), train(straight, comm)));
    return 0;
  });
}

TEST(Sharded, AnswersWhatItCannotDo) {
  on_ranks(1, [](Communicator& comm) {
    Net net;
    optim::LBFGS wrapped(net.parameters());
    const auto optimizer = DistributedOptimizer::create(wrapped, net, comm, {.sharded = true});
    EXPECT_EQ(optimizer.error().code(), Code::kUnsupported);
    return 0;
  });
}

TEST(Lbfgs, TakesTheSameWayOnAllRanks) {
  const auto results = on_ranks(2, [](Communicator& comm) {
    Net net;
    // libtorch's LBFGS takes row-major gradients only: not those of the convolutions.
    optim::LBFGS wrapped({net.fc1, net.fc1_bias, net.branch, net.fc2},
                         optim::LBFGSOptions(0.5).max_iter(5).line_search_fn("strong_wolfe"));
    auto optimizer = DistributedOptimizer::create(wrapped, net, comm, {.find_unused = false}).value();
    const Batch batch = batch_at(0, 2 * comm.rank(), 2);
    const auto closure = [&] {
      ok(optimizer.zero_grad());
      at::Tensor loss = loss_of(net.forward(batch.images, true), batch.targets);
      loss.backward();
      return loss;
    };
    const double first = optimizer.step(closure).value().item<double>();
    EXPECT_LT(optimizer.step(closure).value().item<double>(), first);
    return snapshot(net);
  });
  EXPECT_TRUE(equal_bits(results[0], results[1]));
}

}  // namespace
}  // namespace xoe::torch_test

// Parameters without a gradient on some ranks or on all, and gradients that cannot be reduced.
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include "frameworks/tests/libtorch/nets.h"
#include "frameworks/tests/libtorch/ranks.h"

namespace xoe::torch_test {
namespace {

using torch::DistributedOptimizer;

// One step of a Net whose branch the ranks of `with_branch` use; the optimizer would move parameters by momentum or
// weight decay alone.
std::vector<std::vector<at::Tensor>> step_with_branch(std::vector<bool> with_branch,
                                                      torch::DistributedOptions options) {
  return on_ranks(static_cast<int>(with_branch.size()), [&](Communicator& comm) {
    Net net;
    ::torch::optim::SGD wrapped(net.parameters(), ::torch::optim::SGDOptions(0.1).weight_decay(0.5));
    auto optimizer = DistributedOptimizer::create(wrapped, net, comm, options).value();
    const Batch batch = batch_at(0, comm.rank(), 1);
    const bool branch = with_branch[static_cast<std::size_t>(comm.rank())];
    loss_of(net.forward(batch.images, branch), batch.targets).backward();
    ok(optimizer.step());
    ok(optimizer.close());
    return std::vector<at::Tensor>{net.branch.detach().clone(), net.fc1.detach().clone()};
  });
}

TEST(Unused, RankWithoutGradientContributesZeros) {
  for (const bool sharded : {false, true}) {
    const auto some = step_with_branch({true, false}, {.sharded = sharded});
    EXPECT_TRUE(equal_bits(some[0], some[1]));
    // The gradient of the one rank that has one, halved.
    const at::Tensor alone = on_ranks(1, [](Communicator&) {
                               Net net;
                               const Batch batch = batch_at(0, 0, 1);
                               loss_of(net.forward(batch.images, true), batch.targets).backward();
                               return net.branch.detach() * (1 - 0.05) - 0.1 * net.branch.grad() / 2;
                             }).front();
    EXPECT_TRUE(at::allclose(some[0][0], alone, 1e-5, 1e-7));
  }
}

TEST(Unused, NobodyHasAGradient) {
  for (const bool sharded : {false, true}) {
    const auto found = step_with_branch({false, false}, {.sharded = sharded});
    EXPECT_TRUE(at::equal(found[0][0], Net().branch.detach())) << "left alone";
    const auto zeros = step_with_branch({false, false}, {.find_unused = false, .sharded = sharded});
    EXPECT_TRUE(at::allclose(zeros[0][0], Net().branch.detach() * (1 - 0.05))) << "weight decay acts";
    EXPECT_TRUE(at::equal(found[1][1], zeros[1][1]));
  }
}

TEST(Unused, StepWithoutBackwardJoinsIn) {
  const auto results = on_ranks(2, [](Communicator& comm) {
    Net net;
    const auto wrapped = sgd()(net.parameters());
    auto optimizer = DistributedOptimizer::create(*wrapped, net, comm).value();
    if (comm.rank() == 0) {
      const Batch batch = batch_at(0, 0, 1);
      loss_of(net.forward(batch.images), batch.targets).backward();
    }
    ok(optimizer.step());
    return snapshot(net);
  });
  EXPECT_TRUE(equal_bits(results[0], results[1]));
  EXPECT_FALSE(at::equal(results[1][0], Net().conv1.detach()));
}

void backward(Net& net, int step, const Communicator& comm) {
  const Batch batch = batch_at(step, comm.rank(), 1);
  loss_of(net.forward(batch.images, true), batch.targets).backward();
}

// Rank 1 has no data and does not know that its zero_grad() should take part: its next step would mix with this one.
TEST(Unused, ASkippedStepWithoutBackwardIsAnErrorOnAllRanks) {
  for (const bool find_unused : {false, true}) {
    for (const bool sharded : {false, true}) {
      on_ranks(2, [&](Communicator& comm) {
        Net net;
        const auto wrapped = sgd()(net.parameters());
        auto optimizer =
            DistributedOptimizer::create(*wrapped, net, comm, {.find_unused = find_unused, .sharded = sharded}).value();
        if (comm.rank() == 0) backward(net, 0, comm);
        Status status = optimizer.zero_grad();
        if (comm.rank() == 1) {
          EXPECT_TRUE(status);
          backward(net, 1, comm);
          status = optimizer.step();
        }
        EXPECT_FALSE(status);
        if (status) return 0;
        EXPECT_EQ(status.error().code(), Code::kInvalidArgument);
        EXPECT_NE(status.error().message().find("call synchronize(), then zero_grad()"), std::string::npos);
        EXPECT_TRUE(equal_bits(snapshot(net), snapshot(Net()))) << "no update";
        return 0;
      });
    }
  }
}

TEST(Unused, ASkippedStepWithoutBackwardLeavesNoTraceAfterSynchronize) {
  for (const bool find_unused : {false, true}) {
    const auto results = on_ranks(2, [&](Communicator& comm) {
      std::vector<at::Tensor> both;
      for (const bool detour : {false, true}) {
        Net net;
        const auto wrapped = sgd()(net.parameters());
        auto optimizer = DistributedOptimizer::create(*wrapped, net, comm, {.find_unused = find_unused}).value();
        for (int step = 0; step < 3; ++step) {
          if (detour) {
            if (comm.rank() == 0) backward(net, 50 + step, comm);
            ok(optimizer.synchronize());
          }
          ok(optimizer.zero_grad());
          backward(net, step, comm);
          ok(optimizer.step());
        }
        both.push_back(net.fc1.detach().clone());
      }
      return both;
    });
    EXPECT_TRUE(at::equal(results[0][0], results[0][1]));
    EXPECT_TRUE(at::equal(results[0][1], results[1][1]));
  }
}

TEST(Unused, FrozenParametersStayAsTheyAre) {
  on_ranks(2, [](Communicator& comm) {
    Net net;
    net.fc1.requires_grad_(false);
    const auto wrapped = sgd()(net.parameters());
    auto optimizer = DistributedOptimizer::create(*wrapped, net, comm).value();
    const Batch batch = batch_at(0, comm.rank(), 1);
    loss_of(net.forward(batch.images, true), batch.targets).backward();
    ok(optimizer.step());
    EXPECT_TRUE(at::equal(net.fc1, Net().fc1));
    net.fc1.requires_grad_(true);
    const Status status = optimizer.step();
    EXPECT_EQ(status.error().code(), Code::kInvalidArgument) << "it would not be reduced";
    return 0;
  });
}

struct Table : ::torch::nn::Module {
  Table() { weight = register_parameter("table_weight", pattern({10, 4}, 1)); }
  at::Tensor weight;
};

TEST(Unused, SparseGradientIsAnErrorOfStep) {
  on_ranks(2, [](Communicator& comm) {
    Table table;
    ::torch::optim::SGD wrapped(table.parameters(), 0.1);
    auto optimizer = DistributedOptimizer::create(wrapped, table, comm).value();
    const at::Tensor rows = at::arange(3);
    at::embedding(table.weight, rows, -1, false, /*sparse=*/true).sum().backward();
    const Status status = optimizer.step();
    EXPECT_EQ(status.error().code(), Code::kUnsupported);
    EXPECT_NE(status.error().message().find("table_weight"), std::string::npos) << status.error().message();
    EXPECT_TRUE(at::equal(table.weight, Table().weight));
    return 0;
  });
}

TEST(Unused, BackwardTooOftenIsAnErrorOfStep) {
  on_ranks(2, [](Communicator& comm) {
    Net net;
    ::torch::optim::SGD wrapped(net.parameters(), 0.1);
    auto optimizer = DistributedOptimizer::create(wrapped, net, comm).value();
    for (int pass = 0; pass < 2; ++pass) {
      const Batch batch = batch_at(pass, comm.rank(), 1);
      loss_of(net.forward(batch.images, true), batch.targets).backward();
    }
    const Status status = optimizer.step();
    EXPECT_EQ(status.error().code(), Code::kInvalidArgument);
    EXPECT_NE(status.error().message().find("backward_passes_per_step"), std::string::npos);
    EXPECT_TRUE(equal_bits(snapshot(net), snapshot(Net())));
    EXPECT_EQ(optimizer.zero_grad().error().message(), status.error().message()) << "the first error stays";
    return 0;
  });
}

TEST(Unused, ReplacedGradientIsAnErrorOfStep) {
  on_ranks(2, [](Communicator& comm) {
    Net net;
    ::torch::optim::SGD wrapped(net.parameters(), 0.1);
    auto optimizer = DistributedOptimizer::create(wrapped, net, comm).value();
    const Batch batch = batch_at(0, comm.rank(), 1);
    loss_of(net.forward(batch.images, true), batch.targets).backward();
    net.fc2.mutable_grad() = net.fc2.grad() * 2;
    const Status status = optimizer.step();
    EXPECT_EQ(status.error().code(), Code::kInvalidArgument);
    EXPECT_NE(status.error().message().find("fc2_weight"), std::string::npos);
    return 0;
  });
}

TEST(Create, RanksThatDifferAreToldHow) {
  on_ranks(3, [](Communicator& comm) {
    Net net;
    if (comm.rank() == 2) net.fc2.set_data(at::zeros({6, 33}));
    ::torch::optim::SGD wrapped(net.parameters(), 0.1);
    const auto optimizer = DistributedOptimizer::create(wrapped, net, comm);
    EXPECT_EQ(optimizer.error().code(), Code::kInvalidArgument);
    EXPECT_EQ(
        optimizer.error().message(),
        "DistributedOptimizer: ranks differ: fc2_weight is Float [5, 33] strides [33, 1] on rank 0, and fc2_weight is "
        "Float [6, 33] strides [33, 1] on rank 2");
    return 0;
  });
}

TEST(Create, WrongOptionsTouchNobody) {
  on_ranks(1, [](Communicator& comm) {
    Net net;
    ::torch::optim::SGD wrapped(net.parameters(), 0.1);
    for (const torch::DistributedOptions& options :
         {torch::DistributedOptions{.op = ReduceOp::kMax}, torch::DistributedOptions{.bucket_bytes = 0},
          torch::DistributedOptions{.backward_passes_per_step = 0},
          torch::DistributedOptions{.gradient_views = false, .sharded = true},
          torch::DistributedOptions{.sharded = true, .compression = {.kind = Compression::kBfloat16}},
          torch::DistributedOptions{.compression = {.kind = Compression::kBfloat16}, .adasum = true},
          torch::DistributedOptions{.sharded = true, .overlap_step = true}}) {
      EXPECT_EQ(DistributedOptimizer::create(wrapped, net, comm, options).error().code(), Code::kInvalidArgument);
    }
    ok(comm.barrier());
    return 0;
  });
}

}  // namespace
}  // namespace xoe::torch_test

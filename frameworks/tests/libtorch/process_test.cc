// Ranks as processes: the same bits as threads, and a rank that dies.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "core/tests/comm/process_group.h"
#include "frameworks/tests/libtorch/nets.h"

namespace xoe::torch_test {
namespace {

using torch::DistributedOptimizer;

// Forked ranks must not share a pool of threads with the test: there is none.
class Processes : public ::testing::TestWithParam<bool> {
 protected:
  Processes() { at::set_num_threads(1); }
};

TEST_P(Processes, TrainToTheSameBits) {
  const bool sharded = GetParam();
  testing::ProcessGroup group(2, [&](Communicator& comm) -> std::string {
    try {
      Training training{.make_optimizer = adamw(), .steps = 20};
      training.options.bucket_bytes = 8192;
      training.options.sharded = sharded;
      const auto result = train(training, comm);
      training.options.sharded = false;
      if (!equal_bits(result, train(training, comm))) return "sharded differs from unsharded";
      for (const at::Tensor& parameter : result) {
        const at::Tensor first = parameter.clone();
        ok(torch::broadcast(first, comm, 0));
        if (!at::equal(first, parameter)) return "ranks differ";
      }
      return {};
    } catch (const std::exception& error) {
      return error.what();
    }
  });
  group.expect_success();
}

void expect_a_dead_peer_to_end_the_step(const torch::DistributedOptions& options) {
  testing::ProcessGroup group(3, [&](Communicator& comm) -> std::string {
    Net net;
    const auto wrapped = sgd()(net.parameters());
    auto optimizer = DistributedOptimizer::create(*wrapped, net, comm, options).value();
    for (int step = 0;; ++step) {
      const auto before = snapshot(net);
      ok(optimizer.zero_grad());
      const Batch batch = batch_at(step, comm.rank(), 1);
      at::Tensor loss = loss_of(net.forward(batch.images, true), batch.targets);
      // Rank 1 dies within backward of the third step, after some of its buckets were started.
      if (comm.rank() == 1 && step == 2) net.fc1.register_hook([](const at::Tensor&) { ::kill(::getpid(), SIGKILL); });
      loss.backward();
      const auto start = std::chrono::steady_clock::now();
      const Status status = optimizer.step();
      if (status) {
        if (step == 2) return "a step without rank 1";
        continue;
      }
      const std::string& message = status.error().message();
      if (status.error().code() != Code::kPeerLost) return message;
      if (message.find("rank 1") == std::string::npos) return message;
      if (std::chrono::steady_clock::now() - start > std::chrono::seconds(2)) return "too late";
      // A rank that is slow may hear of it in the step before, at its very end.
      const bool half_updated =
          step == 1 && message.find(options.sharded ? "half updated" : "some parameters are updated") != message.npos;
      if (!half_updated && !equal_bits(snapshot(net), before)) {
        return "parameters were changed in step " + std::to_string(step) + ": " + message;
      }
      if (optimizer.step().error().message() != message) return "a later error differs";
      return {};
    }
  });
  EXPECT_EQ(group.wait(0), 0);
  EXPECT_EQ(group.wait(1), -SIGKILL);
  EXPECT_EQ(group.wait(2), 0);
}

TEST_P(Processes, DeadPeerEndsTheStepWithoutAnUpdate) {
  expect_a_dead_peer_to_end_the_step({.bucket_bytes = 8192, .first_bucket_bytes = 1024, .sharded = GetParam()});
}

TEST(Overlap, DeadPeerEndsTheStepAndTheErrorSaysWhatIsUpdated) {
  at::set_num_threads(1);
  expect_a_dead_peer_to_end_the_step({.bucket_bytes = 8192, .first_bucket_bytes = 1024, .overlap_step = true});
}

TEST(Adasum, DeadPeerEndsTheStepWithoutAnUpdate) {
  at::set_num_threads(1);
  expect_a_dead_peer_to_end_the_step({.adasum = true});
}

INSTANTIATE_TEST_SUITE_P(, Processes, ::testing::Bool(),
                         [](const auto& instance) { return instance.param ? "Sharded" : "Whole"; });

}  // namespace
}  // namespace xoe::torch_test

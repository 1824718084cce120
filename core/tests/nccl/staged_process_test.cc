// Ranks that are processes and share one GPU: their numbers, and who is named when one is killed.
#include <gmock/gmock.h>

#include <atomic>
#include <csignal>

#include "core/tests/nccl/gpu_processes.h"

namespace xoe::testing {
namespace {

using Shape = std::vector<std::int64_t>;

TEST(GpuProcesses, ShareOneGpu) {
  for (const int size : {2, 4}) {
    ProcessGroup ranks(size, [](Communicator& comm) { return on_gpu(comm, run_all_kinds); });
    ranks.expect_success();
  }
}

// What a rank is told when rank 1 has been killed.
std::string expect_loss(const Status& status) {
  if (status) return "the operation completed";
  const std::string text = status.error().to_string();
  const bool names_it = text.find("rank 1") != std::string::npos;
  return status.error().code() == Code::kPeerLost && names_it ? "" : text;
}

std::string reduce_until_killed(GpuRank& rank, bool within_an_operation) {
  const Shape shape{static_cast<std::int64_t>(kStagedCount)};
  const OnGpu<float> data(kStagedCount, 1.0F);
  const std::vector tensors{in_place(data, shape)};
  // The rank that is killed may have completed it before the others have.
  if (const auto first = rank.run({.name = "first", .tensors = tensors}); !first) return expect_loss(first);
  if (rank.rank() == 1 && !within_an_operation) ::raise(SIGKILL);
  if (rank.rank() == 1)
    mock_machine().before_copy = [copies = std::make_shared<std::atomic<int>>(0)] {
      if (++*copies == 5) ::raise(SIGKILL);  // of 14 to the host and as many back
    };
  const std::string problem = expect_loss(rank.run({.name = "second", .tensors = tensors}));
  return problem.empty() ? expect_loss(rank.run({.name = "third", .tensors = tensors})) : problem;
}

TEST(GpuProcesses, AKilledRankIsNamed) {
  for (const bool within_an_operation : {false, true}) {
    ProcessGroup ranks(3, [within_an_operation](Communicator& comm) {
      return on_gpu(comm, [&](GpuRank& rank) { return reduce_until_killed(rank, within_an_operation); });
    });
    EXPECT_EQ(ranks.wait(1), -SIGKILL);
    EXPECT_EQ(ranks.wait(0), 0);
    EXPECT_EQ(ranks.wait(2), 0);
  }
}

// While ranks connect, before any has seen the others' GPUs.
TEST(GpuProcesses, ARankThatDiesInsteadOfConnectingIsNamed) {
  ProcessGroup ranks(2, [](Communicator& comm) {
    return on_gpu(comm, [](GpuRank& rank) -> std::string {
      const Shape shape{4};
      const OnGpu<float> data(4, 1.0F);
      const std::vector tensors{in_place(data, shape)};
      auto handle = rank.submit({.name = "first", .tensors = tensors});
      if (!handle) return handle.error().to_string();
      if (rank.rank() == 1) ::raise(SIGKILL);
      return expect_loss(handle->wait());
    });
  });
  EXPECT_EQ(ranks.wait(1), -SIGKILL);
  EXPECT_EQ(ranks.wait(0), 0);
}

}  // namespace
}  // namespace xoe::testing

// Ranks that leave, fork or drop their handles, and failures noticed by polling.
#include <algorithm>
#include <chrono>

#include <gmock/gmock.h>

#include "core/tests/comm/process_group.h"
#include "core/tests/comm/thread_group.h"

namespace xoe::testing {
namespace {

using ::testing::HasSubstr;

// The final result of test().
Status poll_until_failure(Handle& handle) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < give_up) {
    const auto done = handle.test();
    if (!done) return failure(done.error());
    if (*done) return {};
  }
  return {};
}

TEST(Leaving, IsNoFailureUntilTheRankIsMissed) {
  auto group = make_group(2);
  std::jthread other([communicator = std::make_unique<Communicator>(std::move(group[1]))]() mutable {
    EXPECT_TRUE(communicator->barrier());
    communicator.reset();
  });
  EXPECT_TRUE(group[0].barrier());
  other.join();
  const Status status = group[0].barrier();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kPeerLost);
  EXPECT_THAT(status.error().message(), HasSubstr("rank 1 (pid "));
  EXPECT_THAT(status.error().message(), HasSubstr("has left the group"));
}

TEST(Leaving, IsNoticedByPolling) {
  auto group = make_group(2);
  group.pop_back();
  float x = 0;
  Handle handle = group[0].start_allreduce(Tensor(&x, 1), Tensor(&x, 1)).value();
  const Status status = poll_until_failure(handle);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kPeerLost);
}

TEST(Leaving, ForkedChildLeavesItsParentsBuffersAlone) {
  ProcessGroup(2, [](Communicator& communicator) -> std::string {
    auto buffer = communicator.shared_buffer(1 << 20).value();
    const auto values = buffer.as<float>();
    std::fill(values.begin(), values.end(), 1.0f);
    const pid_t child = ::fork();
    if (child == 0) {
      { [[maybe_unused]] const SharedBuffer gone = std::move(buffer); }
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    return values.front() == 1 && values.back() == 1 ? "" : "the child has cleared the buffer";
  }).expect_success();
}

TEST(Leaving, IsNotWhatAForkedChildDoes) {
  ProcessGroup(2, [](Communicator& communicator) -> std::string {
    const pid_t child = ::fork();
    if (child == 0) {
      { [[maybe_unused]] const Communicator gone = std::move(communicator); }
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (status != 0) return "the child failed";
    const Status after = communicator.barrier();
    return after ? "" : after.error().to_string();
  }).expect_success();
}

TEST(Timeout, IsNoticedByPolling) {
  auto group = make_group(2);
  float x = 0;
  Handle handle =
      group[0]
          .start_allreduce(Tensor(&x, 1), Tensor(&x, 1), ReduceOp::kSum, {.timeout = std::chrono::milliseconds(50)})
          .value();
  const Status status = poll_until_failure(handle);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kTimeout);
}

TEST(Abandoned, HandleOutlivesItsCommunicator) {
  auto group = make_group(2);
  float x = 0;
  Handle handle = group[0].start_allreduce(Tensor(&x, 1), Tensor(&x, 1)).value();
  group.clear();
  const Status status = handle.wait();
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message(), HasSubstr("destroyed"));
}

TEST(Abandoned, DroppedHandleIsFinishedByLaterCalls) {
  run_ranks(2, [](Communicator& communicator) {
    std::vector<float> x(50'000, 1);
    {
      [[maybe_unused]] const auto dropped =
          communicator.start_allreduce(Tensor(x.data(), x.size()), Tensor(x.data(), x.size()));
    }
    ASSERT_TRUE(communicator.barrier());
    EXPECT_EQ(x[49'999], 2);
  });
}

}  // namespace
}  // namespace xoe::testing

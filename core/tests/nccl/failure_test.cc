// What a member is told when a peer stays away, dies or never joins, when it is aborted, and when NCCL or CUDA fails.
#include <latch>

#include <gmock/gmock.h>

#include "core/tests/nccl/members.h"

namespace xoe::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr auto kSoon = seconds(30);  // far from the deadlines that other waits have, also on a busy machine

Status barrier(net::Net& net, Clock::duration timeout = seconds(60)) { return net.run({}, in(timeout)); }

std::string pid_text() { return "pid " + std::to_string(::getpid()); }

void expect_same_again(net::Net& net, const Status& first) {
  const Status next = barrier(net);
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().message(), first.error().message());
  EXPECT_EQ(next.error().code(), first.error().code());
}

TEST(NcclDeadline, NamesWhoIsMissing) {
  MockMachine machine(2);
  machine.faults[1].stays_away = true;
  machine.tells_peers = false;
  run_members(machine, 2, [&](net::Net& net, int member) {
    const OnGpu<float> data(1000, 1.0f);
    const auto begin = Clock::now();
    const Status status = net.run(gpu_allreduce(data.data(), data.size()), in(milliseconds(200)));
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::kTimeout);
    EXPECT_THAT(status.error().message(),
                AllOf(StartsWith("allreduce (conv1.weight): "), HasSubstr(member == 0 ? "rank 11 (" : "rank 10 ("),
                      HasSubstr(pid_text())));
    EXPECT_LT(Clock::now() - begin, milliseconds(200) + kSoon);
    expect_same_again(net, status);
  });
  EXPECT_EQ(machine.count(0, "ncclCommAbort"), 1u);
  EXPECT_EQ(machine.count(0, "ncclCommDestroy"), 0u);
  expect_clean(machine);
}

TEST(NcclDeadline, OfDifferentCalls) {
  MockMachine machine(2);
  run_members(machine, 2, [&](net::Net& net, int member) {
    const OnGpu<float> data(1000);
    const Status status = net.run(gpu_allreduce(data.data(), member == 0 ? 10 : 1000), in(milliseconds(200)));
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().code(), AnyOf(Code::kTimeout, Code::kPeerLost)) << status.error().message();
  });
  expect_clean(machine);
}

TEST(NcclAbort, EndsACallOfAnotherThread) {
  MockMachine machine(2);
  machine.faults[1].stays_away = true;
  run_members(machine, 2, [&](net::Net& net, int member) {
    const OnGpu<float> data(1000, 1.0f);
    if (member == 1) {
      const Status status = net.run(gpu_allreduce(data.data(), data.size()), in(seconds(60)));
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code(), Code::kPeerLost) << status.error().message();
      return;
    }
    Clock::time_point called;
    std::jthread other([&] {
      ::usleep(100'000);
      called = Clock::now();
      net.abort();
    });
    const Status status = net.run(gpu_allreduce(data.data(), data.size()), in(seconds(60)));
    const auto came_back = Clock::now();
    other.join();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::kUnavailable);
    EXPECT_LT(came_back - called, kSoon);
    // Nothing is under way in the buffers any more.
    std::fill_n(data.data(), data.size(), 7.0f);
    ::usleep(50'000);
    EXPECT_EQ(std::count(data.data(), data.data() + data.size(), 7.0f), 1000);
    expect_same_again(net, status);
  });
  expect_clean(machine);
}

TEST(NcclAbort, BetweenCalls) {
  MockMachine machine(1);
  run_members(machine, 1, [](net::Net& net, int) {
    ASSERT_TRUE(barrier(net));
    net.abort();
    const Status status = barrier(net);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::kUnavailable);
  });
  EXPECT_EQ(machine.count(0, "ncclCommAbort"), 1u);
  expect_clean(machine);
}

// Before 2.14 a call may block within NCCL.
TEST(NcclAbort, BringsBackWhoIsWithinNccl) {
  MockMachine machine(1, nccl_version(2, 12, 12));
  machine.faults[0].blocks = true;
  run_members(machine, 1, [](net::Net& net, int) {
    std::jthread other([&] {
      ::usleep(100'000);
      net.abort();
    });
    const Status status = barrier(net);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::kUnavailable);
    other.join();
    expect_same_again(net, status);
  });
  EXPECT_EQ(machine.count(0, "ncclCommAbort"), 1u);
  expect_clean(machine);
}

TEST(NcclPeerLost, IsNamedWhereThereIsOneOther) {
  MockMachine machine(2);
  std::latch met(2);  // else the abort would end the collective before it, for who is late to see that it is done
  run_members(machine, 2, [&](net::Net& net, int member) {
    EXPECT_TRUE(barrier(net));
    met.arrive_and_wait();
    if (member == 1) {
      net.abort();
      EXPECT_FALSE(barrier(net));
      return;
    }
    const Status status = barrier(net);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::kPeerLost);
    EXPECT_THAT(status.error().message(), AllOf(HasSubstr("remote process exited"), HasSubstr("socket closed by peer"),
                                                HasSubstr("lost: rank 11 (")));
  });
  expect_clean(machine);
}

TEST(NcclPeerLost, SaysWhoItMayBe) {
  MockMachine machine(3);
  machine.faults[2].stays_away = true;
  machine.tells_peers = false;
  std::latch told(2);
  run_members(machine, 3, [&](net::Net& net, int member) {
    const OnGpu<float> data(10);
    if (member == 2) {
      std::jthread killer([&] {
        ::usleep(100'000);
        machine.fail(0, NcclResult::kRemoteError);
        machine.fail(1, NcclResult::kRemoteError);
        told.wait();
        net.abort();
      });
      EXPECT_FALSE(net.run(gpu_allreduce(data.data(), data.size()), in(seconds(60))));
      return;
    }
    const Status status = net.run(gpu_allreduce(data.data(), data.size()), in(seconds(60)));
    told.count_down();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::kPeerLost);
    EXPECT_THAT(status.error().message(), AllOf(HasSubstr("one of rank "), HasSubstr(", rank 12 (")));
    expect_same_again(net, status);
  });
  expect_clean(machine);
}

// A kernel that ended because of an error looks done.
TEST(NcclPeerLost, IsSeenAlsoWhenTheEventIsDone) {
  MockMachine machine(1);
  run_members(machine, 1, [&](net::Net& net, int) {
    ASSERT_TRUE(barrier(net));
    machine.answers_in_progress = 0;
    machine.fail(0, NcclResult::kRemoteError);
    EXPECT_EQ(barrier(net).error().code(), Code::kPeerLost);
  });
  expect_clean(machine);
}

TEST(NcclErrors, OfALaunchEndTheNetButNotTheThread) {
  MockMachine machine(1);
  run_members(machine, 1, [&](net::Net& net, int) {
    const OnGpu<float> data(10);
    machine.faults[0].launch = NcclResult::kUnhandledCudaError;
    const Status status = net.run(gpu_allreduce(data.data(), data.size()), in(seconds(60)));
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::kUnavailable);
    EXPECT_THAT(status.error().message(), HasSubstr("unhandled cuda error"));
    machine.faults[0].launch = NcclResult::kSuccess;
    expect_same_again(net, status);
    // The group that failed was ended.
    ExchangeTable table(1);
    const auto provider = open_nccl(machine, {});
    EXPECT_TRUE(barrier(*connect(*provider, table, 1, 0)));
  });
  expect_clean(machine);
}

TEST(NcclErrors, OfTheGpuHaveCudasWords) {
  MockMachine machine(1);
  run_members(machine, 1, [&](net::Net& net, int) {
    machine.faults[0].querying = static_cast<CudaError>(700);
    const Status status = barrier(net);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::kUnavailable);
    EXPECT_THAT(status.error().message(), AllOf(HasSubstr("illegal memory access"), HasSubstr("700")));
  });
  expect_clean(machine);
}

TEST(NcclErrors, OfOneMembersPreparationReachAll) {
  MockMachine machine(2);
  machine.faults[1].allocating = CudaError::kMemoryAllocation;
  ExchangeTable table(2);
  std::vector<std::jthread> threads;
  for (int m = 0; m < 2; ++m)
    threads.emplace_back([&, m] {
      const auto provider = open_nccl(machine, {.local_rank = m});
      const auto made = provider->connect(members_of(2, m), table.exchange(m), in(seconds(30)));
      ASSERT_FALSE(made);
      EXPECT_EQ(made.error().code(), Code::kResourceExhausted);
      EXPECT_THAT(made.error().message(), HasSubstr("out of memory"));
      EXPECT_EQ(made.error().message().starts_with("rank 11 ("), m == 0) << made.error().message();
    });
  threads.clear();
  expect_clean(machine);
}

void expect_join_ends(int version) {
  MockMachine machine(2, version);
  machine.faults[1].joins_never = true;
  machine.tells_peers = false;
  ExchangeTable table(2);
  std::vector<std::jthread> threads;
  for (int m = 0; m < 2; ++m)
    threads.emplace_back([&, m] {
      const auto provider = open_nccl(machine, {.local_rank = m});
      const auto begin = Clock::now();
      const auto made = provider->connect(members_of(2, m), table.exchange(m), in(milliseconds(300)));
      ASSERT_FALSE(made);
      EXPECT_EQ(made.error().code(), Code::kTimeout) << made.error().message();
      EXPECT_THAT(made.error().message(), StartsWith("nccl: connecting 2 ranks: "));
      EXPECT_LT(Clock::now() - begin, milliseconds(300) + kSoon);
    });
  threads.clear();
  for (const std::string& misuse : machine.misuses()) ADD_FAILURE() << misuse;
  EXPECT_EQ(machine.leaks() == "", version >= nccl_version(2, 14, 0));  // else it waits in NCCL
}

TEST(NcclJoin, EndsAtTheDeadline) { expect_join_ends(nccl_version(2, 30, 7)); }
TEST(NcclJoin, EndsAtTheDeadlineWhereItBlocks) { expect_join_ends(nccl_version(2, 10, 3)); }

// As where another version of the world has begun.
void expect_join_ends_when_told(int version) {
  MockMachine machine(2, version);
  machine.faults[1].joins_never = true;
  machine.tells_peers = false;
  ExchangeTable table(2);
  std::vector<std::jthread> threads;
  for (int m = 0; m < 2; ++m)
    threads.emplace_back([&, m] {
      const auto provider = open_nccl(machine, {.local_rank = m});
      net::Members members = members_of(2, m);
      members.check = []() -> Status { return failure(Code::kUnavailable, "the missing ones will not come"); };
      const auto begin = Clock::now();
      const auto made = provider->connect(members, table.exchange(m), in(seconds(300)));
      ASSERT_FALSE(made);
      EXPECT_EQ(made.error().code(), Code::kUnavailable);
      EXPECT_EQ(made.error().message(), "nccl: connecting 2 ranks: the missing ones will not come");
      EXPECT_LT(Clock::now() - begin, kSoon);
    });
  threads.clear();
  for (const std::string& misuse : machine.misuses()) ADD_FAILURE() << misuse;
}

TEST(NcclJoin, EndsWhenThePeersWillNotCome) { expect_join_ends_when_told(nccl_version(2, 30, 7)); }
TEST(NcclJoin, EndsWhenThePeersWillNotComeWhereItBlocks) { expect_join_ends_when_told(nccl_version(2, 10, 3)); }

// A member that joins too late times out, and its communicator is released.
TEST(NcclJoin, LateWhereItBlocksIsReleased) {
  MockMachine machine(1, nccl_version(2, 10, 3));
  machine.faults[0].joins_never = true;
  ExchangeTable table(1);
  const auto provider = open_nccl(machine, {});
  EXPECT_FALSE(provider->connect(members_of(1, 0), table.exchange(0), in(milliseconds(50))));
  {
    const std::lock_guard lock(machine.mutex);
    for (const auto& clique : machine.cliques) clique.second->joined = clique.second->size;
    machine.changed.notify_all();
  }
  const auto end = in(seconds(20));
  while (machine.count(0, "ncclCommAbort") == 0 && Clock::now() < end) ::usleep(1000);
  expect_clean(machine);
}

// The way on after a failure: a new net of the same providers.
TEST(NcclReform, ANewNetAfterAnAbort) {
  MockMachine machine(2);
  ExchangeTable first(2), second(2);
  std::latch met(2), mended(2);
  std::vector<std::jthread> threads;
  for (int m = 0; m < 2; ++m)
    threads.emplace_back([&, m] {
      const auto provider = open_nccl(machine, {.local_rank = m});
      auto net = connect(*provider, first, 2, m);
      EXPECT_TRUE(barrier(*net));
      met.arrive_and_wait();
      if (m == 0) net->abort();
      EXPECT_FALSE(barrier(*net));
      mended.arrive_and_wait();
      net = connect(*provider, second, 2, m);
      (void)mock_cuda_api().set_device(m);
      const OnGpu<float> data(100, 2.0f);
      ASSERT_TRUE(net->run(gpu_allreduce(data.data(), data.size()), in(seconds(30))));
      EXPECT_EQ(data[99], 4.0f);
    });
  threads.clear();
  EXPECT_EQ(machine.count(0, "join"), 2u);
  expect_clean(machine);
}

TEST(NcclLeaving, DoesNotWaitLongForPeers) {
  MockMachine machine(2);
  std::latch left(1);
  ExchangeTable table(2);
  std::jthread stays([&] {
    const auto provider = open_nccl(machine, {.local_rank = 1});
    const auto net = connect(*provider, table, 2, 1);
    left.wait();
  });
  {
    const auto provider = open_nccl(machine, {});
    auto net = connect(*provider, table, 2, 0);
    const auto begin = Clock::now();
    net.reset();
    EXPECT_LT(Clock::now() - begin, seconds(2) + kSoon);
  }
  EXPECT_EQ(machine.count(0, "ncclCommAbort"), 1u);
  left.count_down();
  stays.join();
  expect_clean(machine);
}

}  // namespace
}  // namespace xoe::testing

// The errors of ranks when ranks of other hosts fail. The hosts are processes of this machine.
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <new>
#include <numeric>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "core/backend/backend.h"
#include "core/backend/host_group.h"
#include "core/testing/told_within.h"
#include "core/tests/comm/process_group.h"
#include "core/tests/comm/shared_time.h"

namespace xoe::testing {
namespace {

// A broken connection is reported at once, a silent host after XOE_HOST_TIMEOUT.
double soon() { return told_within(3, 20); }
const std::vector<int> kTwoByTwo{0, 0, 1, 1};

// When a rank returns, all have them: it may die.
std::vector<int> all_pids(Communicator& communicator) {
  std::vector<int> pids(static_cast<std::size_t>(communicator.size()));
  const int mine = ::getpid();
  if (!communicator.allgather(ConstTensor(&mine, 1), Tensor(pids.data(), pids.size()))) pids.clear();
  (void)communicator.barrier();
  return pids;
}

Status small_allreduce(Communicator& communicator) {
  float x = 1;
  return communicator.allreduce(Tensor(&x, 1));
}

Status large_allreduce(Communicator& communicator) {
  std::vector<float> data(1'000'000);
  return communicator.allreduce(Tensor(data.data(), data.size()));
}

Status started_allreduces(Communicator& communicator) {
  std::vector<float> a(100'000), b(100'000);
  auto first = communicator.start_allreduce(Tensor(a.data(), a.size()), Tensor(a.data(), a.size()));
  auto second = communicator.start_allreduce(Tensor(b.data(), b.size()), Tensor(b.data(), b.size()));
  if (!first || !second) return failure(first ? second.error() : first.error());
  const Status one = first->wait();
  const Status two = second->wait();
  return one ? two : one;
}

Status in_a_split(Communicator& communicator) {
  auto part = communicator.split(0, -communicator.rank());
  if (!part) return failure(part.error());
  return small_allreduce(**part);
}

struct Death {
  const char* name;
  std::vector<int> hosts;
  int victim;
  std::function<Status(Communicator&)> meanwhile;
  const char* backend = "auto";
};

class PeerLostOverHosts : public ::testing::TestWithParam<Death> {};

TEST_P(PeerLostOverHosts, EverySurvivorIsToldWho) {
  const Death& death = GetParam();
  SharedTime died;
  ProcessGroup group(death.hosts,
                     [&](Communicator& communicator) -> std::string {
                       const auto pids = all_pids(communicator);
                       if (pids.empty()) return "allgather failed";
                       if (communicator.rank() == death.victim) {
                         ::usleep(100'000);
                         died.is_now();
                         ::raise(SIGKILL);
                       }
                       const auto victim = static_cast<std::size_t>(death.victim);
                       const auto expected = fmt::format("rank {} (host host{}, pid {})", death.victim,
                                                         death.hosts[victim], pids[victim]);
                       const double give_up = now_seconds() + 30;
                       Status status;
                       while (status && now_seconds() < give_up) status = death.meanwhile(communicator);
                       if (status) return "no error";
                       if (died.seconds_ago() > soon()) return fmt::format("told after {} s", died.seconds_ago());
                       if (status.error().code() != Code::kPeerLost) return "told " + status.error().to_string();
                       if (status.error().message().find(expected) == std::string::npos)
                         return "message does not name " + expected + ": " + status.error().message();
                       const Status later = communicator.barrier();
                       if (later || later.error().code() != Code::kPeerLost) return "a later operation did not fail";
                       return "";
                     },
                     {{"XOE_BACKEND", death.backend}});
  for (int rank = 0; rank < static_cast<int>(death.hosts.size()); ++rank)
    EXPECT_EQ(group.wait(rank), rank == death.victim ? -SIGKILL : 0) << "rank " << rank;
}

INSTANTIATE_TEST_SUITE_P(
    Victims, PeerLostOverHosts,
    ::testing::Values(Death{"ALeader", kTwoByTwo, 2, small_allreduce}, Death{"NoLeader", kTwoByTwo, 3, small_allreduce},
                      Death{"RankZero", kTwoByTwo, 0, large_allreduce}, Death{"Large", kTwoByTwo, 1, large_allreduce},
                      Death{"Started", kTwoByTwo, 3, started_allreduces}, Death{"Alone", {0, 0, 1}, 2, small_allreduce},
                      Death{"OneEach", {0, 1, 2}, 1, large_allreduce}, Death{"Split", kTwoByTwo, 3, in_a_split},
                      Death{"GlooAlone", kTwoByTwo, 2, small_allreduce, "gloo"}),
    [](const auto& test) { return test.param.name; });

// Each rank that leaves a group is an event for all ranks, and events are for good no more: 512 filled their log, after
// which no failure was heard between hosts.
TEST(GroupsThatComeAndGo, LeaveRoomForFailures) {
  constexpr int kGroups = 200;
  ProcessGroup group(kTwoByTwo, [](Communicator& communicator) -> std::string {
    const auto pids = all_pids(communicator);
    for (int i = 0; i < kGroups; ++i)
      if (const Status status = in_a_split(communicator); !status) return status.error().to_string();
    if (communicator.rank() == 3) ::raise(SIGKILL);
    const double give_up = now_seconds() + 30;
    Status status;
    while (status && now_seconds() < give_up) status = small_allreduce(communicator);
    if (status) return "no error";
    const auto expected = fmt::format("rank 3 (host host1, pid {})", pids[3]);
    return status.error().message().find(expected) == std::string::npos ? status.error().to_string() : "";
  });
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(group.wait(rank), rank == 3 ? -SIGKILL : 0) << "rank " << rank;
}

// Survivors that end as soon as they are told close their connections, too, without a word.
TEST(SurvivorsThatEndAtOnce, AreNotNamedByTheOthers) {
  if (XOE_SANITIZED != 0) GTEST_SKIP() << "a process that ends at once leaves threads behind, which sanitizers report";
  for (int round = 0; round < 15; ++round) {
    const int victim = round % 3;
    ProcessGroup group({0, 1, 2}, [victim](Communicator& communicator) -> std::string {
      const auto pids = all_pids(communicator);
      if (communicator.rank() == victim) {
        ::usleep(20'000);
        ::raise(SIGKILL);
      }
      Status status;
      while (status) status = small_allreduce(communicator);
      const auto expected =
          fmt::format("rank {} (host host{}, pid {})", victim, victim, pids[static_cast<unsigned>(victim)]);
      if (status.error().message().find(expected) == std::string::npos)
        return "message does not name " + expected + ": " + status.error().message();
      ::_exit(0);
    });
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_EQ(group.wait(rank), rank == victim ? -SIGKILL : 0) << "round " << round << ", rank " << rank;
  }
}

// A rank that failed may leave in order, and one that follows it ends at once: both are told.
TEST(SurvivorsThatEndAtOnce, AreToldWithThoseThatLeftBefore) {
  ProcessGroup group({0, 1, 2}, [](Communicator& communicator) -> std::string {
    const auto pids = all_pids(communicator);
    if (communicator.rank() == 2) return "";
    while (communicator.rank() == 1) ::pause();
    while (communicator.backend().host_group().departed().empty()) ::usleep(1000);
    ::kill(pids[1], SIGKILL);
    Status status;
    while (status) {
      ::usleep(1000);
      status = communicator.progress();
    }
    for (const std::string& expected :
         {fmt::format("rank 1 (host host1, pid {})", pids[1]),
          fmt::format("before that, rank 2 (host host2, pid {}) had left the group", pids[2])})
      if (status.error().message().find(expected) == std::string::npos)
        return "message does not have " + expected + ": " + status.error().message();
    return "";
  });
  EXPECT_EQ(group.wait(0), 0);
  EXPECT_EQ(group.wait(1), -SIGKILL);
  EXPECT_EQ(group.wait(2), 0);
}

// All processes of a host stop: its connections stay open, but it sends nothing.
TEST(SilentHost, IsMissedAfterTheHostTimeout) {
  SharedTime stopped;
  ProcessGroup group(kTwoByTwo,
                     [&](Communicator& communicator) -> std::string {
                       const auto pids = all_pids(communicator);
                       if (pids.empty()) return "allgather failed";
                       if (communicator.rank() == 3) {
                         ::usleep(100'000);
                         stopped.is_now();
                         ::kill(pids[2], SIGSTOP);
                         ::raise(SIGSTOP);
                       }
                       Status status;
                       while (status) status = large_allreduce(communicator);
                       if (communicator.rank() >= 2) return "";
                       if (stopped.seconds_ago() < 0.7 || stopped.seconds_ago() > 1 + soon())
                         return fmt::format("told after {} s", stopped.seconds_ago());
                       if (status.error().code() != Code::kPeerLost) return status.error().to_string();
                       if (status.error().message().find(
                               "host host1 (ranks 2, 3) is gone: nothing was heard from it for") == std::string::npos)
                         return status.error().message();
                       return "";
                     },
                     {{"XOE_HOST_TIMEOUT", "1"}});
  EXPECT_EQ(group.wait(0), 0);
  EXPECT_EQ(group.wait(1), 0);
}

TEST(DifferentCalls, AreToldOnAllHosts) {
  const std::vector<std::pair<std::function<Status(Communicator&, bool)>, const char*>> cases{
      {[](Communicator& c, bool odd) {
         std::vector<float> x(odd ? 10 : 20);
         return c.allreduce(Tensor(x.data(), x.size()), ReduceOp::kSum, {.name = "w"});
       },
       "20 elements"},
      {[](Communicator& c, bool odd) {
         std::vector<float> x(500'000 + (odd ? 1 : 0));
         return c.allreduce(Tensor(x.data(), x.size()), ReduceOp::kSum, {.name = "w"});
       },
       "500000 elements"},
      {[](Communicator& c, bool odd) {
         float x = 0;
         return odd ? c.broadcast(Tensor(&x, 1), 0, {.name = "w"})
                    : c.allreduce(Tensor(&x, 1), ReduceOp::kSum, {.name = "w"});
       },
       "broadcast("},
      {[](Communicator& c, bool odd) {
         float x = 0;
         return c.allreduce(Tensor(&x, 1), ReduceOp::kSum, {.name = odd ? "w" : "v"});
       },
       "'v'"},
  };
  for (const auto& [call, expected] : cases) {
    ProcessGroup group(kTwoByTwo, [&](Communicator& communicator) -> std::string {
      // The ranks of a host agree among themselves. The error may reach a rank that has not left the barrier, but none
      // in init().
      Status status = communicator.barrier();
      if (status) status = call(communicator, communicator.rank() >= 2);
      if (status) return "no error";
      if (status.error().code() != Code::kInvalidArgument) return status.error().to_string();
      for (const std::string& part : {std::string("ranks disagree"), std::string(expected)})
        if (status.error().message().find(part) == std::string::npos) return status.error().message();
      return "";
    });
    group.expect_success();
  }
}

TEST(LateRank, TimesOutOnAllHosts) {
  ProcessGroup group(kTwoByTwo, [&](Communicator& communicator) -> std::string {
    if (communicator.rank() == 3) ::sleep(3);
    float x = 1;
    const Status status =
        communicator.allreduce(Tensor(&x, 1), ReduceOp::kSum, {.name = "w", .timeout = std::chrono::milliseconds(700)});
    if (status) return "no error";
    return status.error().code() == Code::kTimeout ? "" : status.error().to_string();
  });
  group.expect_success();
}

// The times leave room for ranks that a busy machine holds up: they are not late. What the ranks of the hosts print
// while rank 3, of the second one, is late. backend: as XOE_BACKEND.
std::string said_while_rank_3_is_late(const char* backend, const std::function<void()>& be_late) {
  const bool failed_before = ::testing::Test::HasFailure();
  ::testing::internal::CaptureStderr();
  ProcessGroup(kTwoByTwo,
               [&](Communicator& communicator) -> std::string {
                 if (const Status met = communicator.barrier(); !met) return met.error().to_string();
                 if (communicator.rank() == 3) be_late();
                 float x = 1;
                 const Status status = communicator.allreduce(Tensor(&x, 1), ReduceOp::kSum, {.name = "w"});
                 return status ? "" : status.error().to_string();
               },
               {{"XOE_STALL_WARNING", "1"}, {"XOE_BACKEND", backend}})
      .expect_success();
  std::string said = ::testing::internal::GetCapturedStderr();
  if (!failed_before && ::testing::Test::HasFailure()) ADD_FAILURE() << said;
  return said;
}

TEST(LateRank, IsNamedOnTheOtherHosts) {
  for (const char* const backend : {"auto", "gloo"}) {
    const std::string said = said_while_rank_3_is_late(backend, [] { ::usleep(3'500'000); });
    EXPECT_THAT(said, ::testing::ContainsRegex(R"(\(w\): rank 0 \(host host0, pid [0-9]+\) waited .* for )"
                                               R"(rank 3 \(host host1, pid [0-9]+\) \(at operation #[0-9]+\))"))
        << backend;
    EXPECT_THAT(said, ::testing::Not(::testing::HasSubstr("for rank 2"))) << backend;
  }
}

TEST(LateRank, ThatIsStoppedIsSaidToBe) {
  const std::string said = said_while_rank_3_is_late("auto", [] {
    const pid_t stopped = ::getpid();
    if (::fork() == 0) {
      ::usleep(3'500'000);
      ::kill(stopped, SIGCONT);
      ::_exit(0);
    }
    ::raise(SIGSTOP);
  });
  EXPECT_THAT(said, ::testing::ContainsRegex("rank 0 .* for rank 3 .*; its process is stopped"));
}

TEST(LateRank, MayBeLookedForWhileTheCommunicatorGoes) {
  for (int round = 0; round < 5; ++round)
    ProcessGroup({0, 1},
                 [&](Communicator& communicator) -> std::string {
                   if (communicator.rank() == 1) ::usleep(300'000);
                   float x = 1;
                   const auto timeout = std::chrono::milliseconds(20 + 20 * round);
                   const Status status =
                       communicator.allreduce(Tensor(&x, 1), ReduceOp::kSum, {.name = "w", .timeout = timeout});
                   return status ? "no error" : "";
                 },
                 {{"XOE_STALL_WARNING", "0.01"}})
        .expect_success();
}

TEST(LeavingHosts, ARankThatLeftIsNamed) {
  // A failure also reaches ranks that are still in the previous collective: rank 2 leaves after all have left init().
  void* const page =
      ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto* const ready = new (page) std::atomic<int>(0);
  ProcessGroup group(kTwoByTwo, [&](Communicator& communicator) -> std::string {
    if (communicator.rank() == 2) {
      while (ready->load() < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return "";
    }
    ready->fetch_add(1);
    float x = 1;
    const Status status = communicator.allreduce(Tensor(&x, 1));
    if (status) return "no error";
    const std::string& text = status.error().message();
    return status.error().code() == Code::kPeerLost && text.find("rank 2 (") != std::string::npos &&
                   text.find("has left the group") != std::string::npos
               ? ""
               : status.error().to_string();
  });
  group.expect_success();
  ::munmap(page, sizeof(std::atomic<int>));
}

// No rank fails when each leaves as soon as its own collectives are done.
TEST(LeavingHosts, AfterTheLastCollectiveIsNoFailure) {
  for (int round = 0; round < 10; ++round)
    ProcessGroup(kTwoByTwo, [&](Communicator& communicator) -> std::string {
      std::vector<int> x(50'000, communicator.rank());
      for (int i = 0; i < 3; ++i) {
        const Status status = communicator.broadcast(Tensor(x.data(), x.size()), i);
        if (!status) return status.error().to_string();
      }
      return x.front() == 0 && x.back() == 0 ? "" : "wrong data";
    }).expect_success();
}

TEST(SplitOverHosts, PartsAreIndependent) {
  ProcessGroup({0, 0, 1, 1, 1}, [&](Communicator& communicator) -> std::string {
    // By host: shared memory. Across hosts: groups of one rank of each host, and a group of one.
    const bool second = communicator.rank() >= 2;
    auto host = communicator.split(second ? 1 : 0);
    auto across = communicator.split(communicator.local_rank());
    auto none = communicator.split(communicator.rank() == 4 ? -1 : 7, -communicator.rank());
    if (!host || !across || !none) return "split failed";
    if ((*host)->backend_name() != "shm") return std::string((*host)->backend_name());
    int x = communicator.rank();
    if (const Status s = (*host)->allreduce(Tensor(&x, 1)); !s) return s.error().to_string();
    if (x != (second ? 9 : 1)) return fmt::format("host: {}", x);
    x = communicator.rank();
    if (const Status s = (*across)->allreduce(Tensor(&x, 1)); !s) return s.error().to_string();
    if (x != (communicator.local_rank() == 0 ? 2 : communicator.local_rank() == 1 ? 4 : 4))
      return fmt::format("across: {}", x);
    if ((*none).has_value() == (communicator.rank() == 4)) return "rank 4 is in no part";
    if (!*none) return "";
    if ((*none)->rank() != 3 - communicator.rank()) return "order by key";
    x = (*none)->rank();
    if (const Status s = (*none)->broadcast(Tensor(&x, 1), 1); !s) return s.error().to_string();
    return x == 1 ? "" : "broadcast";
  }).expect_success();
}

TEST(InitOverHosts, AMissingRankIsATimeout) {
  const auto store = bootstrap::serve_store("tcp:127.0.0.1:0", "s").value();
  const Env env = rank_env(0, 2, "j", store->address(),
                           {{"XOE_SECRET", "s"}, {"XOE_LOCAL_SIZE", "1"}, {"XOE_START_TIMEOUT", "0.3"}});
  const auto communicator = init_from(env, {});
  ASSERT_FALSE(communicator);
  EXPECT_EQ(communicator.error().code(), Code::kTimeout);
  EXPECT_THAT(communicator.error().message(), ::testing::HasSubstr("rank 1 did not appear within 300 ms"));
}

TEST(InitOverHosts, SharedMemoryAloneIsRefused) {
  const Env env = rank_env(0, 2, "j", "tcp:127.0.0.1:1", {{"XOE_LOCAL_SIZE", "1"}, {"XOE_BACKEND", "shm"}});
  const auto communicator = init_from(env, {});
  ASSERT_FALSE(communicator);
  EXPECT_EQ(communicator.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(communicator.error().message(), ::testing::HasSubstr("XOE_BACKEND=shm"));
}

}  // namespace
}  // namespace xoe::testing

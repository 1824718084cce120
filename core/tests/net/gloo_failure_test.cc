// The errors of a member when another one dies, is late, stops, leaves or makes a different call.
#include <atomic>
#include <csignal>
#include <latch>

#include <gmock/gmock.h>

#include "core/testing/told_within.h"
#include "core/tests/net/net_group.h"

namespace xoe::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

double now_seconds() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

Status allreduce(net::Net& net, std::vector<float>& data, Clock::duration timeout = seconds(60)) {
  return net.run({.kind = CollectiveKind::kAllreduce,
                  .dtype = DType::kFloat32,
                  .in = data.data(),
                  .out = data.data(),
                  .in_count = data.size(),
                  .out_count = data.size(),
                  .options = {.name = "conv1.weight"}},
                 in(timeout));
}

Status barrier(net::Net& net, Clock::duration timeout = seconds(60)) { return net.run({}, in(timeout)); }

// Member 1 of 3 kills itself while the others allreduce: this and every later call of both must fail in time and name
// it.
void expect_lost(std::size_t count) {
  auto* const died_at = static_cast<std::atomic<double>*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  NetProcesses group(3, [&](net::Net& net, int member) -> std::string {
    std::vector<float> data(count);
    std::jthread killer;
    if (member == 1)
      killer = std::jthread([&] {
        ::usleep(100'000);
        died_at->store(now_seconds());
        ::raise(SIGKILL);
      });
    Status status;
    while (status) status = allreduce(net, data);
    const double later = now_seconds() - died_at->load();
    if (later > told_within()) return "told after " + std::to_string(later) + " s";
    if (status.error().code() != Code::kPeerLost) return "told " + status.error().to_string();
    const std::string& message = status.error().message();
    if (!message.starts_with("allreduce (conv1.weight): rank 11 ")) return "message: " + message;
    const Status next = barrier(net);
    return !next && next.error().message() == message ? "" : "a later call does not tell the first cause";
  });
  EXPECT_EQ(group.wait(1), -SIGKILL);
  EXPECT_EQ(group.wait(0), 0);
  EXPECT_EQ(group.wait(2), 0);
  ::munmap(died_at, 4096);
}

TEST(GlooPeerLost, KilledDuringSmallAllreduces) { expect_lost(10); }
TEST(GlooPeerLost, KilledDuringLargeAllreduces) {
  for (int i = 0; i < (XOE_SANITIZED != 0 ? 2 : 10); ++i) expect_lost(5'000'000);
}

TEST(GlooPeerLost, KilledWhileItIsWaitedFor) {
  NetProcesses group(3, [](net::Net& net, int member) -> std::string {
    if (member == 2) {
      ::usleep(200'000);
      ::raise(SIGKILL);
    }
    const Status status = barrier(net);
    return !status && status.error().code() == Code::kPeerLost &&
                   status.error().message().find("rank 12") != std::string::npos
               ? ""
               : "told " + (status ? "nothing" : status.error().to_string());
  });
  EXPECT_EQ(group.wait(0), 0);
  EXPECT_EQ(group.wait(1), 0);
}

// Writing to a member that died does not end a program that leaves SIGPIPE at its default.
TEST(GlooPeerLost, WritingToTheDeadRaisesNoSignal) {
  std::signal(SIGPIPE, SIG_DFL);
  expect_lost(300'000);
  NetProcesses group(2, [](net::Net& net, int member) -> std::string {
    ::usleep(member == 1 ? 200'000 : 500'000);  // the other one has connected, too
    if (member == 1) ::raise(SIGKILL);
    return barrier(net) ? "no error" : "";
  });
  EXPECT_EQ(group.wait(0), 0);
}

TEST(GlooTimeout, NamesWhoIsMissingToAllWhoWait) {
  std::latch gave_up(2);
  run_threads(3, [&](net::Net& net, int member) {
    std::vector<float> data(1000);
    if (member == 2) {
      gave_up.wait();
      const Status late = barrier(net);
      ASSERT_FALSE(late);
      EXPECT_THAT(late.error().code(), AnyOf(Code::kTimeout, Code::kPeerLost)) << late.error().message();
      return;
    }
    const double begin = now_seconds();
    // The other member would wait much longer.
    const Status status = allreduce(net, data, member == 0 ? milliseconds(200) : milliseconds(30'000));
    gave_up.count_down();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::kTimeout) << status.error().message();
    EXPECT_THAT(status.error().message(), HasSubstr("rank 12 did not take its part"));
    EXPECT_LT(now_seconds() - begin, 0.2 + told_within());
  });
}

TEST(GlooTimeout, AShorterDeadlineAfterALongOne) {
  run_threads(2, [&](net::Net& net, int member) {
    ASSERT_TRUE(barrier(net, std::chrono::hours(10)));
    if (member == 1) {
      ::usleep(500'000);
      EXPECT_FALSE(barrier(net));
      return;
    }
    const double begin = now_seconds();
    const Status status = barrier(net, milliseconds(50));
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::kTimeout);
    EXPECT_LT(now_seconds() - begin, 0.05 + told_within());
  });
}

// No member writes to the memory of a collective that failed.
TEST(GlooTimeout, LeavesNobodyInTheBuffers) {
  std::latch gave_up(1), came_late(1);
  run_threads(2, [&](net::Net& net, int member) {
    std::vector<float> data(2'000'000, 1.0f);
    if (member == 1) {
      gave_up.wait();
      EXPECT_FALSE(allreduce(net, data));
      came_late.count_down();
      return;
    }
    EXPECT_FALSE(allreduce(net, data, milliseconds(100)));
    std::fill(data.begin(), data.end(), 7.0f);
    gave_up.count_down();
    came_late.wait();
    EXPECT_EQ(std::count(data.begin(), data.end(), 7.0f), static_cast<std::ptrdiff_t>(data.size()));
  });
}

TEST(GlooAbort, EndsACallOfAnotherThread) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{3'000'000}}) {
    std::latch aborted(1);
    run_threads(2, [&](net::Net& net, int member) {
      std::vector<float> data(count);
      if (member == 1) {
        aborted.wait();
        const Status status = allreduce(net, data);
        ASSERT_FALSE(status);
        EXPECT_EQ(status.error().code(), Code::kPeerLost);
        EXPECT_THAT(status.error().message(), HasSubstr("rank 10 gave up"));
        return;
      }
      double called = 0;
      std::jthread other([&] {
        ::usleep(100'000);
        called = now_seconds();
        net.abort();
      });
      const Status status = allreduce(net, data);
      const double came_back = now_seconds();
      other.join();
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code(), Code::kUnavailable);
      EXPECT_LT(came_back - called, told_within());
      aborted.count_down();
      EXPECT_EQ(barrier(net).error().code(), Code::kUnavailable);
    });
  }
}

TEST(GlooAbort, BetweenCallsAndAlone) {
  run_threads(1, [&](net::Net& net, int) {
    ASSERT_TRUE(barrier(net));
    net.abort();
    EXPECT_EQ(barrier(net).error().code(), Code::kUnavailable);
  });
  run_threads(3, [&](net::Net& net, int member) {
    ASSERT_TRUE(barrier(net));
    if (member == 0) net.abort();
    const Status status = barrier(net);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), member == 0 ? Code::kUnavailable : Code::kPeerLost) << status.error().message();
  });
}

// A member that leaves after its part does not disturb members that still have to finish theirs.
TEST(GlooLeaving, RightAfterTheLastCollective) {
  constexpr int kSize = 4;
  for (int turn = 0; turn < (XOE_SANITIZED != 0 ? 3 : 20); ++turn)
    run_threads(kSize, [&](net::Net& net, int) {
      std::vector<float> data(turn % 2 == 0 ? 100 : 1'000'000, 1.0f);
      const Status status = allreduce(net, data);
      ASSERT_TRUE(status) << status.error().message();
      EXPECT_EQ(data.front(), kSize);
      EXPECT_EQ(data.back(), kSize);
    });
}

TEST(GlooLeaving, IsToldToWhoeverStillNeedsIt) {
  ExchangeTable table(2);
  const auto first = open_gloo(), second = open_gloo();
  std::jthread other([&] { connect(*second, table, 2, 1); });
  const auto net = connect(*first, table, 2, 0);
  other.join();
  const Status status = barrier(*net);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kPeerLost);
  EXPECT_THAT(status.error().message(), HasSubstr("rank 11 left the group"));
}

TEST(GlooMismatch, EndsInATimeOut) {
  run_threads(2, [&](net::Net& net, int member) {
    std::vector<float> data(member == 0 ? 10 : 1'000'000);
    const Status status = allreduce(net, data, milliseconds(300));
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::kTimeout) << status.error().message();
  });
}

TEST(GlooConnect, WithoutAMemberEndsAtTheDeadline) {
  ExchangeTable table(2);
  const auto provider = open_gloo();
  // The other member publishes an address on which it does not listen; the ports decide which of the two connects.
  std::jthread absent([&] {
    const auto other = open_gloo();
    const auto hangs_up = [exchange = table.exchange(1)](std::string mine) mutable -> Result<std::vector<std::string>> {
      if (const auto all = exchange(std::move(mine)); !all) return failure(all.error());
      return failure(Code::kUnavailable, "this member never connects");
    };
    const auto made = other->connect(members_of(2, 1), hangs_up, in(seconds(5)));
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code(), Code::kUnavailable);
  });
  const double begin = now_seconds();
  const auto made = provider->connect(members_of(2, 0), table.exchange(0), in(milliseconds(1500)));
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().code(), AnyOf(Code::kTimeout, Code::kPeerLost)) << made.error().message();
  EXPECT_THAT(made.error().message(), HasSubstr("rank 11"));
  EXPECT_LT(now_seconds() - begin, 1.5 + told_within());
}

}  // namespace
}  // namespace xoe::testing

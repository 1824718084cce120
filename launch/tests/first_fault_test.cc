#include "launch/supervise/first_fault.h"

#include "launch/supervise/requested_stop.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace xoe::launch {
namespace {

using namespace std::chrono_literals;

const auto kStart = std::chrono::steady_clock::time_point() + 1h;
constexpr int exited(int code) { return code << 8; }

Fault ended(std::size_t host, int rank, int status, std::chrono::milliseconds at) {
  return {.cause = Cause::kRankFailed, .host = host, .end = RankEnd{.rank = rank, .status = status}, .at = kStart + at};
}

int first_rank(std::initializer_list<Fault> faults) {
  FirstFault all;
  for (const Fault& fault : faults) all.add(fault);
  return all.first().end ? all.first().end->rank : -1;
}

TEST(FirstFault, TheEarliestCountsInWhateverOrderTheyAreTold) {
  EXPECT_EQ(first_rank({ended(0, 0, exited(5), 7ms), ended(1, 3, exited(1), 2ms), ended(1, 2, exited(5), 3ms)}), 3);
  EXPECT_EQ(first_rank({ended(1, 2, exited(5), 3ms), ended(1, 3, exited(1), 2ms), ended(0, 0, exited(5), 7ms)}), 3);
}

TEST(FirstFault, ASignalOutranksAnExitThatSeemsEarlier) {
  EXPECT_EQ(first_rank({ended(0, 0, exited(5), 0ms), ended(1, 3, SIGKILL, 200ms)}), 3);
  EXPECT_EQ(first_rank({ended(0, 0, exited(5), 0ms), ended(1, 3, exited(137), 200ms)}), 3) << "behind a shell";
  EXPECT_EQ(first_rank({ended(0, 0, exited(7), 0ms), ended(1, 3, SIGSEGV, 600ms)}), 0) << "too late to be its cause";
}

TEST(FirstFault, NewsOfAHostThatAnswersLateMayBeOlderThanItSeems) {
  FirstFault all;
  all.add(ended(0, 0, exited(5), 0ms));
  all.add(ended(1, 3, SIGKILL, 2s));
  EXPECT_EQ(all.first().end->rank, 0);
  all.note_lateness(1, 1700ms);
  EXPECT_EQ(all.first().end->rank, 3);
  all.note_lateness(1, 1400ms);
  EXPECT_EQ(all.first().end->rank, 0);
}

TEST(FirstFault, ASurvivorThatAbortsOutranksNothing) {
  EXPECT_EQ(first_rank({ended(0, 0, exited(7), 0ms), ended(1, 3, SIGABRT, 50ms)}), 0);
  EXPECT_EQ(first_rank({ended(0, 0, exited(7), 0ms), ended(1, 3, SIGTERM, 50ms)}), 0);
}

TEST(FirstFault, OnOneHostTheOrderIsKnown) {
  EXPECT_EQ(first_rank({ended(0, 0, exited(7), 0ms), ended(0, 1, SIGSEGV, 1ms)}), 0);
  EXPECT_EQ(first_rank({ended(0, 0, exited(7), 0ms), ended(0, 1, SIGSEGV, 1ms), ended(1, 2, exited(5), -1ms)}), 2);
}

TEST(FirstFault, ARankThatAnnouncedItsFailureIsTheFirst) {
  FirstFault all;
  Fault announced = ended(0, 1, exited(1), 4ms);
  announced.end->announced = true;
  all.add(announced);
  all.add(ended(0, 0, exited(3), 5ms));
  EXPECT_EQ(all.first().end->rank, 1);
  EXPECT_TRUE(all.first().end->announced);
  all.add(ended(0, 1, exited(7), 2s));
  EXPECT_EQ(all.first().end->rank, 1);
  EXPECT_EQ(all.first().end->status, exited(7)) << "what became of it";
  EXPECT_FALSE(all.first().end->announced);
}

TEST(FirstFault, OnlyWhatWasAnnouncedBeforeIsACause) {
  for (const auto& [at, first] : {std::pair(4ms, 1), std::pair(6ms, 0)}) {
    FirstFault all;
    Fault announced = ended(0, 1, exited(1), at);
    announced.end->pid = 7;
    announced.end->announced = true;
    all.announce(announced);
    EXPECT_TRUE(all.any_announced());
    const Fault other = ended(0, 0, exited(3), 5ms);
    all.add_announced(other);
    all.add(other);
    EXPECT_EQ(all.first().end->rank, first);
    EXPECT_FALSE(all.take_announced(1, 8)) << "of an earlier process";
    EXPECT_FALSE(all.any_announced());
  }
}

// What the ranks themselves say of each other counts more than any clock.
TEST(FirstFault, WhoeverFollowedIsNotTheFirst) {
  FirstFault all;
  all.add(ended(0, 1, exited(5), 0ms));
  all.note_lost(1, 0, {{.rank = 2, .host = 0}});
  EXPECT_TRUE(all.awaits({0, 2})) << "rank 2 is about to end";
  EXPECT_FALSE(all.awaits({0})) << "it has ended well";
  EXPECT_EQ(all.first().end->rank, 1);
  all.add(ended(0, 2, exited(3), 4000ms));
  EXPECT_EQ(all.first().end->rank, 2);
  EXPECT_FALSE(all.awaits({0}));
}

TEST(FirstFault, CausesAreFollowedToTheFirst) {
  FirstFault all;
  all.note_lost(3, 0, {{.rank = 2, .host = 1}});
  all.note_lost(2, 0, {{.rank = 1, .host = 0}});
  all.add(ended(2, 3, SIGSEGV, 0ms));
  all.add(ended(0, 1, exited(7), 900ms));
  EXPECT_EQ(all.first().end->rank, 1) << "rank 2 itself was told to end";
  EXPECT_TRUE(all.rivals().empty());
}

TEST(FirstFault, WhatAnEarlierProcessOfTheRankHadLostDoesNotCount) {
  FirstFault all;
  Fault first = ended(0, 1, exited(5), 0ms);
  first.end->pid = 12;
  all.note_lost(1, 11, {{.rank = 2, .host = 0}});
  all.add(first);
  all.add(ended(0, 2, exited(3), 4ms));
  EXPECT_EQ(all.first().end->rank, 1);
}

TEST(FirstFault, WhatWasLostInAWorldThatHasPassedDoesNotCount) {
  FirstFault all;
  all.note_lost(1, 0, {{.rank = 2, .host = 0}}, 3);
  all.note_lost(0, 0, {{.rank = 2, .host = 0}}, 2);
  all.forget_lost(3);
  all.add(ended(0, 0, exited(5), 0ms));
  EXPECT_FALSE(all.awaits({2})) << "world 2 is past";
  EXPECT_EQ(all.first().end->rank, 0);
  FirstFault other;
  other.note_lost(1, 0, {{.rank = 2, .host = 0}}, 3);
  other.forget_lost(3);
  other.add(ended(0, 1, exited(5), 0ms));
  EXPECT_TRUE(other.awaits({2})) << "it was lost in the world that has formed";
}

TEST(FirstFault, OfTwoThatLostEachOtherTheEarlierCounts) {
  FirstFault all;
  all.note_lost(1, 0, {{.rank = 2, .host = 1}});
  all.note_lost(2, 0, {{.rank = 1, .host = 0}});
  all.add(ended(1, 2, exited(5), 2000ms));
  all.add(ended(0, 1, exited(5), 0ms));
  EXPECT_EQ(all.first().end->rank, 1);
}

TEST(FirstFault, ARankFollowsFromTheLossOfItsPeersHost) {
  FirstFault all;
  all.note_lost(0, 0, {{.rank = 3, .host = 1}});
  all.add(ended(0, 0, exited(5), 0ms));
  all.add({.cause = Cause::kHostLost, .host = 1, .at = kStart + 3s});
  EXPECT_EQ(all.first().cause, Cause::kHostLost);
}

TEST(FirstFault, NamesThoseThatMayHaveBeenFirst) {
  FirstFault all;
  all.add(ended(0, 0, exited(5), 0ms));
  all.add(ended(1, 2, exited(3), 3ms));
  all.add(ended(1, 3, exited(3), 4ms));
  all.add(ended(2, 4, exited(3), 3s));
  EXPECT_EQ(all.first().end->rank, 0);
  ASSERT_EQ(all.rivals().size(), 1u) << "the order on one host is known, and three seconds are enough";
  EXPECT_EQ(all.rivals().front().end->rank, 2);
  all.add(ended(2, 5, SIGKILL, 10ms));
  EXPECT_EQ(all.first().end->rank, 5);
  EXPECT_TRUE(all.rivals().empty()) << "a kill is no answer to a lost peer, and an exit may be one";
}

TEST(FirstFault, ASuspectCountsWhenAnotherFollowsSoon) {
  for (const auto& [later, first] : {std::pair(300ms, 1), std::pair(60000ms, 0)}) {
    FirstFault all;
    all.suspect(ended(0, 1, exited(3), 0ms));
    EXPECT_TRUE(all.empty());
    all.add(ended(0, 0, exited(7), later));
    EXPECT_EQ(all.first().end->rank, first);
  }
}

TEST(FirstFault, AShellTellsALittleLate) {
  EXPECT_EQ(first_rank({ended(0, 0, exited(5), 0ms), ended(0, 1, exited(137), 20ms)}), 1);
  EXPECT_EQ(first_rank({ended(0, 0, exited(5), 0ms), ended(0, 1, exited(137), 120ms)}), 0);
}

TEST(FirstFault, ALostHostOutranksRanks) {
  const Fault lost{.cause = Cause::kHostLost, .host = 1, .at = kStart + 100ms};
  EXPECT_EQ(first_rank({ended(0, 0, exited(5), 0ms), lost}), -1);
  EXPECT_EQ(first_rank({ended(0, 0, SIGKILL, 0ms), lost}), -1);
  EXPECT_EQ(first_rank({ended(1, 2, exited(7), 0ms), lost}), 2) << "it failed before its host was lost";
  EXPECT_EQ(first_rank({ended(0, 0, exited(7), -5000ms), lost}), 0);
}

TEST(RequestedStop, ExplainWhatFailsAfterThemButNoCrash) {
  RequestedStop asked;
  EXPECT_FALSE(asked.explain(ended(0, 1, exited(1), 5ms)));
  asked.add(ended(0, 0, exited(0), 10ms));
  EXPECT_FALSE(asked.first_failure());
  EXPECT_TRUE(asked.explain(ended(0, 1, exited(1), 20ms)));
  EXPECT_TRUE(asked.explain(ended(0, 1, SIGABRT, 20ms)));
  EXPECT_FALSE(asked.explain(ended(0, 1, SIGSEGV, 20ms)));
  EXPECT_FALSE(asked.explain(ended(0, 1, exited(1), 5ms))) << "it failed first";
  EXPECT_TRUE(asked.explain(ended(1, 2, exited(1), 5ms))) << "clocks of hosts differ a little";
  EXPECT_FALSE(asked.explain(ended(1, 2, exited(1), -600ms)));
  asked.follow(ended(0, 1, exited(1), 20ms));
  EXPECT_EQ(asked.first_failure()->end->rank, 1);
  asked.add(ended(0, 3, SIGTERM, 30ms));
  EXPECT_EQ(asked.first_failure()->end->rank, 3);
}

}  // namespace
}  // namespace xoe::launch

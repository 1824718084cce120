#include "launch/supervise/shutdown_policy.h"

#include <gtest/gtest.h>

namespace xoe::launch {
namespace {

using namespace std::chrono_literals;
using Step = ShutdownPolicy::Step;

const ShutdownPolicy::Clock::time_point kStart = ShutdownPolicy::Clock::time_point() + 1h;

TEST(ShutdownPolicy, NothingHappensByItself) {
  ShutdownPolicy ending(kStart, {}, 5s);
  EXPECT_EQ(ending.next_step(kStart + 24h), Step::kNothing);
  EXPECT_FALSE(ending.next());
  EXPECT_EQ(ending.cause(), Cause::kNone);
}

TEST(ShutdownPolicy, AFailureGivesGraceThenKills) {
  ShutdownPolicy ending(kStart, {}, 5s);
  ending.begin(Cause::kRankFailed, kStart);
  EXPECT_EQ(ending.next(), kStart);
  EXPECT_EQ(ending.next_step(kStart), Step::kTerminate);
  EXPECT_EQ(ending.next_step(kStart + 4s), Step::kNothing);
  EXPECT_EQ(ending.next(), kStart + 5s);
  EXPECT_EQ(ending.next_step(kStart + 5s), Step::kKill);
  EXPECT_TRUE(ending.killed());
  EXPECT_EQ(ending.next_step(kStart + 6s), Step::kNothing);
  EXPECT_FALSE(ending.next());
}

TEST(ShutdownPolicy, TheFirstCauseCounts) {
  ShutdownPolicy ending(kStart, 10s, 5s);
  EXPECT_EQ(ending.next_step(kStart + 10s), Step::kTerminate);
  ending.begin(Cause::kRankFailed, kStart + 11s);
  EXPECT_EQ(ending.cause(), Cause::kTimeout);
}

TEST(ShutdownPolicy, TheShortestDelayCounts) {
  ShutdownPolicy ending(kStart, {}, 5s);
  ending.begin(Cause::kRankFailed, kStart, 5s);
  EXPECT_EQ(ending.next_step(kStart + 1s), Step::kNothing);
  ending.begin(Cause::kHostLost, kStart + 1s);
  EXPECT_EQ(ending.cause(), Cause::kRankFailed);
  EXPECT_EQ(ending.next_step(kStart + 1s), Step::kTerminate);
}

TEST(ShutdownPolicy, TheLimitAndWhatIsLeftShortenADelay) {
  ShutdownPolicy limited(kStart, 10s, 5s);
  limited.begin(Cause::kRankFailed, kStart, 30s);
  EXPECT_EQ(limited.next(), kStart + 10s);
  EXPECT_EQ(limited.next_step(kStart + 10s), Step::kTerminate);
  EXPECT_EQ(limited.cause(), Cause::kRankFailed);
  ShutdownPolicy leftovers(kStart, {}, 5s);
  leftovers.begin(Cause::kRankFailed, kStart, 30s);
  leftovers.leftovers(kStart + 1s);
  EXPECT_EQ(leftovers.next_step(kStart + 2s), Step::kTerminate);
}

TEST(ShutdownPolicy, TheLimitEndsWithTheRanks) {
  ShutdownPolicy ending(kStart, 10s, 5s);
  EXPECT_EQ(ending.next(), kStart + 10s);
  ending.leftovers(kStart + 10s - 1ms);
  EXPECT_EQ(ending.next_step(kStart + 11s), Step::kTerminate);
  EXPECT_EQ(ending.cause(), Cause::kNone);
  EXPECT_EQ(ending.next_step(kStart + 16s), Step::kKill);
}

TEST(ShutdownPolicy, AskedTwiceKillsAtOnce) {
  ShutdownPolicy ending(kStart, {}, 5s);
  ending.kill_at_once(kStart);
  EXPECT_EQ(ending.next_step(kStart), Step::kKill);
  ShutdownPolicy graceful(kStart, {}, 5s);
  graceful.begin(Cause::kRankFailed, kStart);
  EXPECT_EQ(graceful.next_step(kStart), Step::kTerminate);
  graceful.kill_at_once(kStart + 1s);
  EXPECT_EQ(graceful.next_step(kStart + 1s), Step::kKill);
}

TEST(ShutdownPolicy, AStoppedJobsTimeStandsStill) {
  ShutdownPolicy ending(kStart, 10s, 5s);
  ending.shift(1h);
  EXPECT_EQ(ending.next_step(kStart + 1h), Step::kNothing);
  EXPECT_EQ(ending.next_step(kStart + 1h + 10s), Step::kTerminate);
}

TEST(ShutdownPolicy, RanksMayNotFollowForGood) {
  ShutdownPolicy policy(kStart, {}, 5s);
  policy.limit_others(kStart + 10s);
  policy.limit_others(kStart + 20s);  // another rank has ended
  policy.shift(1s);
  EXPECT_EQ(policy.next(), kStart + 11s);
  EXPECT_EQ(policy.next_step(kStart + 10s), Step::kNothing);
  EXPECT_EQ(policy.next_step(kStart + 11s), Step::kTerminate);
  EXPECT_EQ(policy.cause(), Cause::kSignalLimit);
  EXPECT_EQ(policy.next_step(kStart + 16s), Step::kKill);
  ShutdownPolicy all_ended(kStart, {}, 5s);
  all_ended.limit_others(kStart + 10s);
  all_ended.leftovers(kStart + 9s);
  EXPECT_EQ(all_ended.next_step(kStart + 10s), Step::kTerminate);
  EXPECT_EQ(all_ended.cause(), Cause::kNone);
}

TEST(ShutdownPolicy, ACauseMayBeWithdrawnUntilSomethingWasDone) {
  ShutdownPolicy policy(kStart, std::nullopt, 5s);
  policy.begin(Cause::kRankFailed, kStart, 300ms);
  policy.withdraw();
  EXPECT_EQ(policy.cause(), Cause::kNone);
  EXPECT_EQ(policy.next_step(kStart + 1s), ShutdownPolicy::Step::kNothing);
  policy.begin(Cause::kRankFailed, kStart + 2s);
  EXPECT_EQ(policy.next_step(kStart + 2s), ShutdownPolicy::Step::kTerminate);
  policy.withdraw();
  EXPECT_EQ(policy.cause(), Cause::kRankFailed);
}

}  // namespace
}  // namespace xoe::launch

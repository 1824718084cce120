#include "launch/supervise/lost_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xoe::launch {
namespace {

using testing::ElementsAre;
using Clock = LostRanks::Clock;

const Clock::time_point kNow = Clock::time_point() + std::chrono::hours(1);
const Clock::time_point kLater = kNow + LostRanks::kMayStillEnd;

TEST(LostRanks, OneThatSaysNothingIsStuck) {
  LostRanks lost;
  EXPECT_FALSE(lost.next());
  lost.note(0, {2}, true, kNow);
  lost.note(1, {2}, false, kNow + std::chrono::seconds(1));
  EXPECT_EQ(lost.next(), kLater);
  EXPECT_FALSE(lost.take_due(kLater - std::chrono::milliseconds(1)));
  const auto verdict = lost.take_due(kLater);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->stuck, ElementsAre(2));
  EXPECT_FALSE(verdict->parted);
  EXPECT_FALSE(lost.next()) << "it is told once";
}

TEST(LostRanks, ThoseThatLoseEachOtherHaveParted) {
  LostRanks lost;
  lost.note(0, {1}, false, kNow);
  lost.note(1, {0}, false, kNow + std::chrono::seconds(2));
  const auto verdict = lost.take_due(kLater);
  ASSERT_TRUE(verdict);
  EXPECT_TRUE(verdict->stuck.empty());
  EXPECT_TRUE(verdict->parted);
}

TEST(LostRanks, OneThatEndsIsNoMatter) {
  LostRanks lost;
  lost.note(0, {1}, true, kNow);
  lost.ended(1);
  EXPECT_FALSE(lost.take_due(kLater));
  lost.note(0, {1}, true, kNow);
  lost.clear();  // another world has begun
  EXPECT_FALSE(lost.take_due(kLater));
}

// It may be writing its last file.
TEST(LostRanks, OneThatHasClosedItsConnectionsIsLeftAlone) {
  LostRanks lost;
  lost.note(0, {1}, false, kNow);
  EXPECT_FALSE(lost.take_due(kLater));
  EXPECT_EQ(lost.next(), kLater + LostRanks::kMayStillEnd);
  lost.note(1, {0}, false, kLater);
  EXPECT_TRUE(lost.take_due(kLater + LostRanks::kMayStillEnd)->parted);
}

}  // namespace
}  // namespace xoe::launch

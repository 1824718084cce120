// How a process has gone from world to world, as its timeline shows it.
#include "core/comm/world_history.h"

#include <gtest/gtest.h>

namespace xoe {
namespace {

using namespace std::chrono_literals;
using Clock = WorldHistory::Clock;

const WorldRanks kThree = {.version = 1, .rank = 2, .size = 3, .slots = {0, 1, 2}};

TEST(DescribeWorld, NamesWhoWasLostLeftOrJoined) {
  EXPECT_EQ(describe_world(kThree, {2, 1, 2, {0, 2}}, {"allreduce: rank 1 (pid 7) ended", {1}}),
            "world 2: 2 ranks (rank 1 lost: allreduce: rank 1 (pid 7) ended)");
  EXPECT_EQ(describe_world(kThree, {2, 0, 1, {2}}, {}), "world 2: 1 rank (ranks 0, 1 left)");
  EXPECT_EQ(describe_world(kThree, {4, 2, 5, {0, 1, 2, 6, 7}}, {}), "world 4: 5 ranks (ranks 3, 4 joined)");
  EXPECT_EQ(describe_world(kThree, {2, 1, 3, {0, 2, 5}}, {"rank 1 ended", {1}}),
            "world 2: 3 ranks (rank 1 lost: rank 1 ended; rank 2 joined)");
  EXPECT_EQ(describe_world(kThree, {2, 0, 1, {2}}, {"rank 0 ended", {0}}),
            "world 2: 1 rank (rank 0 lost: rank 0 ended; rank 1 left)");
}

TEST(DescribeWorld, AnErrorThatNamesNoneOfThoseThatAreGoneIsTheirs) {
  EXPECT_EQ(describe_world(kThree, {2, 1, 2, {0, 2}}, {"the connection was closed"}),
            "world 2: 2 ranks (rank 1 lost: the connection was closed)");
  EXPECT_EQ(describe_world(kThree, {2, 2, 3, {0, 1, 2}}, {"rank 1 ended", {1}}),
            "world 2: 3 ranks (rank 1 lost: rank 1 ended)")
      << "it was started again at once";
  EXPECT_EQ(describe_world({1, 0, 2, {}}, {2, 0, 2, {}}, {}), "world 2: 2 ranks (formed again)");
}

TEST(DescribeWorld, ALongCauseIsCut) {
  const std::string text = describe_world(kThree, {2, 1, 2, {0, 2}}, {"rank 1 ended " + std::string(2000, 'x'), {1}});
  EXPECT_LT(text.size(), 400U);
  EXPECT_TRUE(text.ends_with("...)")) << text;
}

TEST(WorldHistory, TheFirstWorldHasNoMark) {
  WorldHistory history;
  history.joined({.version = 3, .rank = 0, .size = 2, .slots = {0, 1}}, Clock::now());
  EXPECT_FALSE(history.take_mark());
  EXPECT_EQ(history.version(), 3);
}

TEST(WorldHistory, AMarkBeginsWithTheLossAndIsTakenOnce) {
  WorldHistory history;
  history.joined(kThree, Clock::now());
  history.lost("rank 0 ended");
  history.lost("rank 1 ended, because rank 0 did");
  const auto later = Clock::now() + 50ms;
  history.joined({2, 1, 2, {1, 2}}, later);
  const auto mark = history.take_mark();
  ASSERT_TRUE(mark);
  EXPECT_EQ(mark->text, "world 2: 2 ranks (rank 0 lost: rank 0 ended)");
  EXPECT_EQ(mark->note, "rank 2 before");
  EXPECT_LT(mark->began, later);
  EXPECT_FALSE(history.take_mark());
  history.joined({3, 1, 3, {1, 2, 4}}, Clock::now());
  EXPECT_EQ(history.take_mark()->text, "world 3: 3 ranks (rank 2 joined)") << "the loss was of the world before";
}

TEST(WorldHistory, AWorldThatBrokeBeforeItWasUsedIsPassedOver) {
  WorldHistory history;
  history.joined(kThree, Clock::now());
  history.lost("rank 0 ended");
  const auto before = Clock::now();
  history.joined({2, 1, 2, {1, 2}}, Clock::now());
  history.lost("rank 0 ended, too");
  history.joined({3, 0, 1, {2}}, Clock::now());
  const auto mark = history.take_mark();
  ASSERT_TRUE(mark);
  EXPECT_EQ(mark->text, "world 3: 1 rank (ranks 0, 1 lost: rank 0 ended; rank 0 ended, too)");
  EXPECT_LE(mark->began, before);
}

TEST(WorldHistory, ATimelineGoesOnInALaterWorld) {
  WorldHistory history;
  history.joined(kThree, Clock::now());
  history.writes("a.json");
  EXPECT_FALSE(history.wrote_before("a.json")) << "started again in the same world, it is replaced";
  history.joined({2, 1, 2, {0, 2}}, Clock::now());
  EXPECT_TRUE(history.wrote_before("a.json"));
  EXPECT_FALSE(history.wrote_before("b.json"));
  EXPECT_FALSE(history.may_follow_others("a.json"));
  EXPECT_TRUE(history.may_follow_others("b.json"));
}

TEST(WorldHistory, AClockIsThatOfAnEarlierWorld) {
  WorldHistory history;
  history.joined({0, 1, 3, {0, 1, 2}}, Clock::now());
  history.note_clock({.offset = std::chrono::seconds(5)});
  EXPECT_FALSE(history.earlier_clock()) << "the first world has no earlier one";
  history.joined({1, 0, 2, {1, 2}}, Clock::now());
  ASSERT_TRUE(history.earlier_clock());
  EXPECT_EQ(history.earlier_clock()->offset, std::chrono::seconds(5));
}

}  // namespace
}  // namespace xoe

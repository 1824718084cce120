#include "core/engine/watch/stall.h"

#include <algorithm>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/engine/watch/shown_wait.h"

namespace xoe::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using namespace std::chrono_literals;

TEST(RankList, IsSortedAndShort) {
  EXPECT_EQ(rank_list({}), "no rank");
  EXPECT_EQ(rank_list({3}), "rank 3");
  EXPECT_EQ(rank_list({3, 3}), "rank 3");
  EXPECT_EQ(rank_list({1, 0}), "ranks 0, 1");
  EXPECT_EQ(rank_list({7, 2, 1, 0, 3}), "ranks 0-3, 7");
  EXPECT_EQ(rank_list({5, 4, 8, 9, 10}), "ranks 4, 5, 8-10");
  EXPECT_EQ(rank_list({0, 2, 4, 6, 8}, 3), "ranks 0, 2, 4, ... (5 in all)");
  EXPECT_EQ(rank_list({0, 2, 4}, 3), "ranks 0, 2, 4");
}

// Ranks 0, 64, 128, ... lie in different words.
TEST(ShownWait, IsReadWholeOrNotAtAll) {
  RankStatus status{};
  std::vector<MissingRank> missing;
  for (int rank = 0; rank < static_cast<int>(kBlockedRanks); rank += 64) missing.push_back({rank, ""});
  std::jthread writer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      show_wait(status, 3, "conv1.weight", missing);
      show_no_wait(status);
    }
  });
  int seen = 0;
  for (const auto until = std::chrono::steady_clock::now() + 60s;
       seen < 2000 && std::chrono::steady_clock::now() < until;) {
    const BlockedWait wait = read_wait(status, 5);
    if (wait.missing.empty()) continue;
    ++seen;
    ASSERT_THAT(wait.missing, SizeIs(missing.size()));
    ASSERT_EQ(wait.name, "conv1.weight");
    ASSERT_EQ(wait.set, 3);
  }
  EXPECT_GT(seen, 0);
}

TEST(Stall, NamesBothSides) {
  const PendingTensor tensor{
      .name = "conv1.weight", .set = 0, .submitted = {2, 0, 1}, .missing = {{3, "submitted 'x' 61 s ago"}}, .age = 62s};
  EXPECT_EQ(stall_line(tensor),
            "'conv1.weight' (process set 0) has waited for 62 s: submitted by ranks 0-2; "
            "missing on rank 3 (submitted 'x' 61 s ago)");
}

TEST(Stall, TellsRanksTogetherThatDidTheSame) {
  const PendingTensor tensor{.name = "t",
                             .set = 7,
                             .submitted = {0},
                             .missing = {{5, "submitted nothing"}, {1, "left"}, {4, "submitted nothing"}, {9, ""}},
                             .age = 1500ms};
  EXPECT_EQ(stall_line(tensor),
            "'t' (process set 7) has waited for 1.5 s: submitted by rank 0; "
            "missing on rank 1 (left), ranks 4, 5 (submitted nothing), rank 9");
}

TEST(Stall, LinesAreBounded) {
  PendingTensor tensor{.name = std::string(1024, 'n'), .set = 0, .submitted = {}, .missing = {}, .age = 1h};
  for (int rank = 0; rank < 10'000; rank += 2) {
    tensor.submitted.push_back(rank);
    tensor.missing.push_back({rank + 1, std::string(5000, static_cast<char>('a' + rank % 26))});
  }
  EXPECT_LT(stall_line(tensor).size(), 2048U);
  for (auto& missing : tensor.missing) missing.last = std::to_string(missing.rank) + std::string(500, 'y');
  EXPECT_LT(stall_line(tensor).size(), 2048U);
  EXPECT_THAT(stall_line(tensor), HasSubstr("... (5000 ranks in all)"));
}

TEST(Stall, NamesCannotBreakTheLine) {
  const PendingTensor tensor{
      .name = "a\nb\x1b[31m\x7f", .set = 0, .submitted = {0}, .missing = {{1, "x\ny"}}, .age = 1s};
  const std::string line = stall_line(tensor);
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  EXPECT_THAT(line, HasSubstr("'a?b?[31m?'"));
}

TEST(Stall, LongNamesAreCutBetweenCharacters) {
  std::string name(119, 'a');
  for (int i = 0; i < 10; ++i) name += "\xe2\x82\xac";  // a character of three bytes
  const std::string line = stall_line({.name = name, .set = 0, .submitted = {0}, .missing = {{1, ""}}, .age = 1s});
  EXPECT_THAT(line, HasSubstr("a\xe2\x82\xac...'"));
  const std::string broken =
      stall_line({.name = std::string(1000, '\x80'), .set = 0, .submitted = {0}, .missing = {{1, ""}}, .age = 1s});
  EXPECT_LT(broken.size(), 300U);
}

TEST(Stall, ReportsTheOldestFirst) {
  std::vector<PendingTensor> tensors;
  for (int i = 0; i < 30; ++i)
    tensors.push_back({.name = std::to_string(i), .set = 0, .submitted = {0}, .missing = {{1, ""}}, .age = i * 1s});
  const auto lines = stall_report(tensors, 3);
  EXPECT_THAT(lines, ElementsAre(HasSubstr("'29' "), HasSubstr("'28' "), HasSubstr("'27' "),
                                 "27 more tensors wait for ranks that have not submitted them"));
  EXPECT_THAT(stall_report({}), IsEmpty());
}

TEST(WaitCycles, TwoProcessSetsInOppositeOrder) {
  const auto cycles = find_wait_cycles({{0, "x", 1, {1}}, {1, "y", 2, {0}}});
  ASSERT_THAT(cycles, SizeIs(1));
  EXPECT_EQ(deadlock_line(cycles[0]),
            "order deadlock: rank 0 waits for 'x' (process set 1), which rank 1 has not submitted; "
            "rank 1 waits for 'y' (process set 2), which rank 0 has not submitted");
}

TEST(WaitCycles, WaitingForOneThatWorksIsNone) {
  EXPECT_THAT(find_wait_cycles({}), IsEmpty());
  EXPECT_THAT(find_wait_cycles({{0, "x", 0, {1, 2}}}), IsEmpty());
  EXPECT_THAT(find_wait_cycles({{0, "x", 0, {2}}, {1, "x", 0, {2}}}), IsEmpty());
  EXPECT_THAT(find_wait_cycles({{0, "x", 0, {1}}, {1, "y", 0, {2}}, {2, "z", 0, {3}}}), IsEmpty());
  EXPECT_THAT(find_wait_cycles({{0, "x", 0, {0}}}), IsEmpty());
}

TEST(WaitCycles, ThreeInACircleAndOthersBehindThem) {
  const auto cycles = find_wait_cycles({
      {5, "behind", 0, {4}},
      {4, "c", 3, {2, 9}},
      {3, "b", 2, {4}},
      {2, "a", 1, {3}},
      {1, "works on", 0, {8}},
  });
  ASSERT_THAT(cycles, SizeIs(1));
  EXPECT_EQ(deadlock_line(cycles[0]),
            "order deadlock: rank 2 waits for 'a' (process set 1), which rank 3 has not submitted; "
            "rank 3 waits for 'b' (process set 2), which rank 4 has not submitted; "
            "rank 4 waits for 'c' (process set 3), which rank 2 has not submitted");
}

TEST(WaitCycles, OneForEachKnotAndTheShortest) {
  const auto cycles = find_wait_cycles({
      {0, "a", 0, {1, 2}},
      {1, "b", 0, {2}},
      {2, "c", 0, {0}},  // 0-1-2, and 0-2
      {10, "d", 1, {11}},
      {11, "e", 2, {10}},
  });
  ASSERT_THAT(cycles, SizeIs(2));
  ASSERT_THAT(cycles[0], SizeIs(2));
  EXPECT_EQ(cycles[0][0].rank, 0);
  EXPECT_EQ(cycles[0][1].rank, 2);
  EXPECT_EQ(cycles[1][0].name, "d");
}

TEST(WaitCycles, ARankWithSeveralThreads) {
  const auto cycles = find_wait_cycles({{0, "first", 1, {7}}, {0, "second", 2, {1}}, {1, "third", 3, {0}}});
  ASSERT_THAT(cycles, SizeIs(1));
  EXPECT_EQ(cycles[0][0].name, "second");
}

TEST(WaitCycles, LongOnesAreCut) {
  std::vector<BlockedWait> waits;
  for (int rank = 0; rank < 64; ++rank) waits.push_back({rank, std::string(1024, 'n'), rank, {(rank + 1) % 64}});
  const auto cycles = find_wait_cycles(waits);
  ASSERT_THAT(cycles, SizeIs(1));
  EXPECT_THAT(cycles[0], SizeIs(64));
  EXPECT_LT(deadlock_line(cycles[0]).size(), 2048U);
  EXPECT_THAT(deadlock_line(cycles[0]), HasSubstr("and so on over 57 more ranks, back to rank 0"));
}

// Whatever is found is a circle; nothing is found exactly when waits can be resolved one after the other.
TEST(WaitCycles, AgreesWithResolvingByHand) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 6);
    std::vector<BlockedWait> waits;
    for (int rank = 0; rank < ranks; ++rank) {
      if (random() % 4 == 0) continue;
      BlockedWait wait{rank, std::to_string(rank), 0, {}};
      for (int other = 0; other < ranks; ++other)
        if (other != rank && random() % 4 == 0) wait.missing.push_back(other);
      if (!wait.missing.empty()) waits.push_back(wait);
    }
    auto left = waits;
    for (bool freed = true; freed;) {
      freed = std::erase_if(left, [&](const BlockedWait& wait) {
                return std::ranges::none_of(wait.missing, [&](int rank) {
                  return std::ranges::any_of(left, [&](const BlockedWait& other) { return other.rank == rank; });
                });
              }) > 0;
    }
    const auto cycles = find_wait_cycles(waits);
    ASSERT_EQ(cycles.empty(), left.empty());
    for (const WaitCycle& cycle : cycles)
      for (std::size_t i = 0; i < cycle.size(); ++i)
        ASSERT_THAT(cycle[i].missing, ::testing::Contains(cycle[(i + 1) % cycle.size()].rank));
  }
}

// The waits of two ranks for each other, as shown for the nth time.
std::vector<BlockedWait> opposite(std::uint32_t shown_by_0, std::uint32_t shown_by_1) {
  return {{0, "x", 1, {1}, shown_by_0}, {1, "y", 2, {0}, shown_by_1}};
}

TEST(Deadlocks, AreToldOnceWhenAllRanksHaveShownThemAgain) {
  DeadlockWatch watch;
  EXPECT_EQ(watch.look(opposite(1, 1), 1), "");
  EXPECT_THAT(watch.look(opposite(2, 2), 1), HasSubstr("order deadlock: rank 0 waits for 'x'"));
  EXPECT_EQ(watch.look(opposite(3, 3), 1), "");
  EXPECT_EQ(watch.look({}, 1), "");
  EXPECT_EQ(watch.look(opposite(9, 9), 1), "");
  EXPECT_EQ(watch.look(opposite(10, 10), 1), "") << "it was told before";
}

// Rank 0's wait has ended, and on a busy machine it has not run since.
TEST(Deadlocks, ARankThatHasNotRunSinceIsWaitedFor) {
  DeadlockWatch watch;
  for (std::uint32_t look = 1; look < 50; ++look) EXPECT_EQ(watch.look(opposite(1, look), 1), "");
  EXPECT_EQ(watch.look({{1, "y", 2, {0}, 50}}, 1), "");
  // The looks of ranks are not in step: the other one shows it again later.
  EXPECT_EQ(watch.look(opposite(3, 51), 1), "");
  EXPECT_EQ(watch.look(opposite(3, 52), 1), "");
  EXPECT_THAT(watch.look(opposite(4, 53), 1), HasSubstr("order deadlock"));
}

TEST(Deadlocks, OfOtherRanksAreTheirsToTell) {
  DeadlockWatch watch;
  for (std::uint32_t look = 1; look < 5; ++look) EXPECT_EQ(watch.look(opposite(look, look), 2), "");
}

}  // namespace
}  // namespace xoe::engine

// The laws of stages: what is delivered, in which order, and after a restore.
#include "xoe/data/stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/base/shard_range.h"
#include "data/stages/random.h"

namespace xoe::data {
namespace {

std::vector<int> counting(int count) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

template <class T>
std::vector<T> drain(Iterator<T>& iterator, std::size_t most = 100000) {
  std::vector<T> elements;
  while (elements.size() < most) {
    auto element = iterator.next();
    EXPECT_TRUE(element) << element.error().message();
    if (!element || !*element) break;
    elements.push_back(std::move(**element));
  }
  return elements;
}
template <class T>
std::vector<T> drain(const StagePtr<T>& stage, std::int64_t epoch = 0, std::size_t most = 100000) {
  return drain(*stage->iterate(epoch).value(), most);
}

TEST(PlanShard, EveryRankMakesEqualBatchesAndCoversWhatItShould) {
  for (std::int64_t total = 0; total < 60; ++total)
    for (const int size : {1, 2, 3, 7})
      for (const int batch : {1, 4, 5})
        for (const Remainder remainder : {Remainder::kDrop, Remainder::kPad, Remainder::kKeep}) {
          std::int64_t sum = 0;
          const std::int64_t batches = plan_shard(total, 0, size, batch, remainder).batches;
          for (int rank = 0; rank < size; ++rank) {
            const ShardPlan plan = plan_shard(total, rank, size, batch, remainder);
            EXPECT_EQ(plan.batches, batches);
            EXPECT_LE(plan.elements, batches * batch);
            sum += plan.elements;
          }
          if (remainder == Remainder::kKeep) {
            EXPECT_EQ(sum, total);
          }
          if (remainder == Remainder::kDrop) {
            EXPECT_EQ(sum, total / (size * batch) * (size * batch));
          }
          if (remainder == Remainder::kPad) {
            EXPECT_GE(sum, total);
            EXPECT_LT(sum, total + size * batch);
          }
        }
}

TEST(Shuffle, IsAPermutationByEpochAndSeed) {
  const auto stage = shuffle(from_vector(counting(100)), 1000, 7);
  const auto first = drain(stage, 0);
  EXPECT_THAT(first, ::testing::UnorderedElementsAreArray(counting(100)));
  EXPECT_EQ(first, drain(stage, 0));
  EXPECT_NE(first, drain(stage, 1));
  EXPECT_NE(first, drain(shuffle(from_vector(counting(100)), 1000, 8), 0));
  EXPECT_NE(first, counting(100));
}

TEST(Shuffle, SmallBufferMovesElementsForwardByLessThanItself) {
  const auto order = drain(shuffle(from_vector(counting(500)), 10, 3));
  EXPECT_THAT(order, ::testing::UnorderedElementsAreArray(counting(500)));
  for (std::size_t i = 0; i < order.size(); ++i) EXPECT_LT(order[i], static_cast<int>(i) + 10);
}

TEST(Shuffle, EveryPlaceIsAboutEquallyLikely) {
  constexpr int kElements = 8;
  constexpr int kRounds = 8000;
  int seen[kElements][kElements] = {};
  const auto stage = shuffle(from_vector(counting(kElements)), kElements, 11);
  for (int epoch = 0; epoch < kRounds; ++epoch) {
    const auto order = drain(stage, epoch);
    for (std::size_t place = 0; place < order.size(); ++place) ++seen[order[place]][place];
  }
  for (const auto& row : seen)
    for (const int count : row) EXPECT_NEAR(count, kRounds / kElements, 180);  // six standard deviations
}

template <class T>
std::vector<T> dealt(const StagePtr<T>& stage, ShardBatchesOptions options, std::int64_t epoch = 0) {
  std::vector<T> elements;
  for (const auto& made : drain(shard_batches(stage, options), epoch))
    elements.insert(elements.end(), made.elements.begin(), made.elements.end());
  return elements;
}

TEST(Shard, EveryElementOnceOverAllRanks) {
  Random random(4);
  for (int round = 0; round < 100; ++round) {
    const int total = random.integer(1, 300);
    const int size = random.integer(1, 9);
    const int batch_size = random.integer(1, 17);
    const auto common = shuffle(from_vector(counting(total)), static_cast<std::size_t>(random.integer(0, 400)), 5);
    std::vector<int> all;
    std::vector<int> simple;
    for (int rank = 0; rank < size; ++rank) {
      const auto mine = dealt(common, {rank, size, batch_size, Remainder::kKeep}, 3);
      all.insert(all.end(), mine.begin(), mine.end());
      const auto sharded = drain(shard(common, rank, size), 3);
      EXPECT_EQ(sharded, mine);
      EXPECT_EQ(shard(common, rank, size)->size(), static_cast<std::int64_t>(sharded.size()));
    }
    EXPECT_THAT(all, ::testing::UnorderedElementsAreArray(counting(total)));
  }
}

TEST(ShardBatches, PadWrapsToTheBeginning) {
  EXPECT_EQ(dealt(from_vector(counting(5)), {0, 2, 2, Remainder::kPad}), (std::vector<int>{0, 2, 4, 1}));
  EXPECT_EQ(dealt(from_vector(counting(5)), {1, 2, 2, Remainder::kPad}), (std::vector<int>{1, 3, 0, 2}));
  EXPECT_EQ(dealt(from_vector(counting(1)), {1, 2, 3, Remainder::kPad}), (std::vector<int>{0, 0, 0}));
}

// One step of all ranks takes the same elements whatever their number.
TEST(ShardBatches, StepsHoldTheSameElementsForAnyNumberOfRanks) {
  const auto common = shuffle(from_vector(counting(97)), 50, 5);
  const auto steps = [&common](int size) {
    std::vector<std::vector<int>> made;
    for (int rank = 0; rank < size; ++rank) {
      const auto batches = drain(shard_batches(common, {rank, size, 12 / size, Remainder::kDrop}));
      made.resize(batches.size());
      for (std::size_t i = 0; i < batches.size(); ++i)
        made[i].insert(made[i].end(), batches[i].elements.begin(), batches[i].elements.end());
    }
    for (auto& step : made) std::sort(step.begin(), step.end());
    return made;
  };
  EXPECT_EQ(steps(1).size(), 8U);
  EXPECT_EQ(steps(1), steps(2));
  EXPECT_EQ(steps(1), steps(3));
  EXPECT_EQ(steps(1), steps(12));
}

// Also where that does not divide them: no rank has more than one element more than another.
TEST(ShardBatches, JointBatchesAreSharedOutAmongAnyNumberOfRanks) {
  const auto common = shuffle(from_vector(counting(97)), 50, 5);
  for (const Remainder remainder : {Remainder::kDrop, Remainder::kPad, Remainder::kKeep}) {
    const auto expected = drain(shard_batches(common, {0, 1, 15, remainder}));
    for (const int size : {1, 2, 4, 7, 15}) {
      std::vector<std::vector<int>> steps(expected.size());
      for (int rank = 0; rank < size; ++rank) {
        const auto batches = drain(shard_batches(common, {rank, size, 1, remainder, 15}));
        ASSERT_EQ(batches.size(), expected.size());
        for (std::size_t i = 0; i < batches.size(); ++i) {
          const auto all = static_cast<std::int64_t>(expected[i].elements.size());
          EXPECT_EQ(std::ssize(batches[i].elements), share_of(all, rank, size));
          steps[i].insert(steps[i].end(), batches[i].elements.begin(), batches[i].elements.end());
        }
      }
      for (std::size_t i = 0; i < steps.size(); ++i)
        EXPECT_THAT(steps[i], ::testing::UnorderedElementsAreArray(expected[i].elements)) << i << " of " << size;
    }
  }
}

// With logical shards a rank's elements lie beside each other in the common order, shard by shard.
TEST(ShardBatches, LogicalShardsHaveTheSameElementsForAnyNumberOfRanks) {
  const auto common = shuffle(from_vector(counting(97)), 50, 5);
  for (const Remainder remainder : {Remainder::kDrop, Remainder::kPad, Remainder::kKeep})
    for (const int shards : {5, 8}) {
      const std::int64_t joint = 3 * shards;
      const auto expected =
          drain(shard_batches(common, {.batch = static_cast<int>(joint), .remainder = remainder, .joint = joint}));
      for (int size = 1; size <= shards; ++size) {
        std::vector<std::vector<int>> steps(expected.size());
        for (int rank = 0; rank < size; ++rank) {
          const auto batches = drain(shard_batches(common, {rank, size, 3, remainder, joint, shards}));
          ASSERT_EQ(batches.size(), expected.size());
          for (std::size_t i = 0; i < batches.size(); ++i)
            steps[i].insert(steps[i].end(), batches[i].elements.begin(), batches[i].elements.end());
          const auto range = shards_of_rank(shards, rank, size);
          EXPECT_EQ(std::ssize(batches.front().elements), 3 * range.count());
        }
        for (std::size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i], expected[i].elements) << i << " of " << size;
      }
    }
  EXPECT_FALSE(shard_batches(common, {.rank = 0, .size = 3, .batch = 1, .joint = 2, .shards = 2})->iterate(0));
}

TEST(ShardBatches, FillsUpWithEmptyBatches) {
  const auto batches = drain(shard_batches(from_vector(counting(5)), {1, 2, 1, Remainder::kKeep}), 6);
  ASSERT_EQ(batches.size(), 3U);
  EXPECT_EQ(batches[1].elements, (std::vector<int>{3}));
  EXPECT_TRUE(batches[2].elements.empty());
  EXPECT_EQ(batches[2].index, 2);
  EXPECT_EQ(batches[2].epoch, 6);
}

TEST(Skip, TellsWhetherTheEpochEndsBefore) {
  const auto numbers = from_vector(counting(10));
  for (const StagePtr<int>& stage : {numbers, cache(numbers), shuffle(numbers, 4, 1), take(numbers, 20),
                                     concat<int>({numbers}), prefetch(numbers, 2)}) {
    const auto iterator = stage->iterate(0).value();
    EXPECT_TRUE(iterator->skip(10).value());
    EXPECT_FALSE(iterator->skip(1).value());
    const auto beyond = stage->iterate(0).value();
    EXPECT_FALSE(beyond->skip(11).value());
    EXPECT_THAT(drain(*beyond), ::testing::IsEmpty());
  }
}

TEST(Batch, KeepsDropsOrPadsTheRemainder) {
  const auto groups = [](Remainder remainder) {
    std::vector<std::vector<int>> made;
    for (const auto& group : drain(batch(from_vector(counting(5)), 3, remainder))) made.push_back(group.elements);
    return made;
  };
  EXPECT_EQ(groups(Remainder::kKeep), (std::vector<std::vector<int>>{{0, 1, 2}, {3, 4}}));
  EXPECT_EQ(groups(Remainder::kDrop), (std::vector<std::vector<int>>{{0, 1, 2}}));
  EXPECT_EQ(groups(Remainder::kPad), (std::vector<std::vector<int>>{{0, 1, 2}, {3, 4, 0}}));
}

TEST(Repeat, GoesThroughEpochs) {
  EXPECT_EQ(drain(repeat(from_vector(counting(2)), 3)), (std::vector<int>{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(drain(repeat(from_vector(counting(2)), 3), 2), (std::vector<int>{0, 1}));
  EXPECT_EQ(drain(repeat(from_vector(counting(2))), 0, 7).size(), 7U);
  EXPECT_EQ(repeat(from_vector(counting(0)))->iterate(0).value()->next().error().code(), Code::kInvalidArgument);
}

TEST(Map, ErrorsStay) {
  const auto stage = map<int, int>(from_vector(counting(5)), [](const int& number) -> Result<int> {
    if (number == 2) return failure(Code::kDataLoss, "two is bad");
    return 10 * number;
  });
  const auto iterator = stage->iterate(0).value();
  EXPECT_EQ(iterator->next().value(), 0);
  EXPECT_EQ(iterator->next().value(), 10);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(iterator->next().error().message(), "map: element 2 of epoch 0: two is bad");
}

TEST(Prefetch, KeepsOrderEndAndErrors) {
  EXPECT_EQ(drain(prefetch(from_vector(counting(1000)), 3)), counting(1000));
  const auto failing = map<int, int>(from_vector(counting(9)), [](const int& number) -> Result<int> {
    if (number == 5) return failure(Code::kDataLoss, "five is bad");
    return number;
  });
  const auto iterator = prefetch(failing, 2)->iterate(0).value();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(iterator->next().value(), i);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(iterator->next().error().message(), "map: element 5 of epoch 0: five is bad");
}

TEST(Prefetch, CanBeDroppedWhileFull) {
  for (int i = 0; i < 50; ++i) {
    const auto iterator = prefetch(from_vector(counting(100)), 4)->iterate(0).value();
    EXPECT_EQ(iterator->next().value(), 0);
  }
}

// A pipeline of all stages goes on, from any position and through the state's text, with what would have come.
TEST(Restore, ContinuesEverywhere) {
  for (const Remainder remainder : {Remainder::kDrop, Remainder::kPad, Remainder::kKeep})
    for (const std::size_t depth : {0U, 3U}) {
      const auto records = shuffle(from_vector(counting(23)), 6, 5);
      const auto batches = shard_batches(records, {1, 2, 3, remainder});
      const auto sums = map<std::vector<int>, Batch<int>>(
          repeat(batches, 3), [](const Batch<int>& made) -> Result<std::vector<int>> { return made.elements; });
      const auto stage = prefetch(sums, depth);
      const auto expected = drain(stage);
      const auto used = stage->iterate(0).value();
      for (std::size_t at = 0; at <= expected.size(); ++at) {
        const auto walk = stage->iterate(0).value();
        for (std::size_t i = 0; i < at; ++i) ASSERT_TRUE(walk->next());
        const State state = State::from_text(walk->save().to_text()).value();
        EXPECT_EQ(state, walk->save());
        EXPECT_LT(state.to_text().size(), 1024U);
        const std::vector<std::vector<int>> rest(expected.begin() + static_cast<std::ptrdiff_t>(at), expected.end());
        const auto fresh = stage->iterate(0).value();
        ASSERT_TRUE(fresh->restore(state));
        EXPECT_EQ(drain(*fresh), rest);
        ASSERT_TRUE(used->restore(state)) << "an iterator can be restored again and again";
        EXPECT_EQ(drain(*used), rest);
      }
    }
}

// Behind no batches of ranks, which start the shuffled epoch again and count.
TEST(Restore, ContinuesAShuffle) {
  const auto stage = shuffle(from_vector(counting(23)), 6, 5);
  const auto expected = drain(stage);
  for (std::size_t at = 0; at <= expected.size(); ++at) {
    const auto walk = stage->iterate(0).value();
    for (std::size_t i = 0; i < at; ++i) ASSERT_TRUE(walk->next());
    const auto fresh = stage->iterate(0).value();
    ASSERT_TRUE(fresh->restore(walk->save()));
    EXPECT_EQ(drain(*fresh), std::vector<int>(expected.begin() + static_cast<std::ptrdiff_t>(at), expected.end()));
  }
}

TEST(Restore, RefusesStatesOfOtherPipelines) {
  const auto shuffled = shuffle(from_vector(counting(9)), 5, 1)->iterate(0).value();
  const auto plain = from_vector(counting(9))->iterate(0).value();
  EXPECT_EQ(shuffled->restore(plain->save()).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(plain->restore(State()).error().code(), Code::kInvalidArgument);
  State far;
  far.push("shuffle.position", 100);
  EXPECT_EQ(shuffled->restore(far).error().code(), Code::kInvalidArgument);
}

TEST(State, ReadsItsOwnTextAlone) {
  EXPECT_TRUE(State::from_text("").value().empty());
  for (const auto* text : {"a", "a=", "=1", "a=1 b", "a=x", "a=1  b=2"})
    EXPECT_EQ(State::from_text(text).error().code(), Code::kInvalidArgument) << text;
}

}  // namespace
}  // namespace xoe::data

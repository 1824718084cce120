// Sums over logical shards: the same bits for any number of ranks, in the order of the tree.
#include "core/engine/shards/shard_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "core/engine/shards/shard_tree.h"
#include "core/tests/engine/engines.h"
#include "core/tests/engine/ranks.h"

namespace xoe::engine {
namespace {

using ::testing::HasSubstr;
using testing::run_engines;

constexpr auto kTimeout = std::chrono::seconds(600);

std::vector<float> values_of(int shard, std::size_t count, int step = 0) {
  // Of all sizes, so that the order of additions shows in the sum.
  auto values = random_values(count, static_cast<std::uint64_t>(1000 * step + shard));
  for (std::size_t i = 0; i < count; ++i) values[i] *= std::ldexp(1.0F, static_cast<int>((i + 7 * shard) % 24));
  return values;
}

// Written apart from the library: halves are powers of two.
std::vector<float> tree_sum(int begin, int end, std::size_t count, int step) {
  if (end - begin == 1) return values_of(begin, count, step);
  int left = 1;
  while (2 * left < end - begin) left *= 2;
  auto sum = tree_sum(begin, begin + left, count, step);
  const auto right = tree_sum(begin + left, end, count, step);
  for (std::size_t i = 0; i < count; ++i) sum[i] += right[i];
  return sum;
}

std::vector<float> sum_one_by_one(int shards, std::size_t count) {
  auto sum = values_of(0, count);
  for (int shard = 1; shard < shards; ++shard) {
    const auto values = values_of(shard, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += values[i];
  }
  return sum;
}

// A step, whose values come in two pieces.
std::vector<float> step_of(ShardSum& sum, int step) {
  for (int shard = sum.mine().begin; shard < sum.mine().end; ++shard) {
    const auto values = values_of(shard, sum.count(), step);
    const std::size_t first = values.size() / 3;
    const std::array<ShardPiece, 2> pieces = {{{values.data(), first}, {values.data() + first, values.size() - first}}};
    const Status added = sum.add(shard, pieces);
    EXPECT_TRUE(added) << added.error().message();
  }
  const auto result = sum.wait(kTimeout);
  EXPECT_TRUE(result) << result.error().message();
  if (!result) return {};
  return {*result, *result + sum.count()};
}

bool same_bits(const std::vector<float>& one, const std::vector<float>& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(), [](float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  });
}

TEST(ShardRange, RangesCoverAllShardsAndDifferByOneAtMost) {
  for (int shards = 1; shards <= 40; ++shards)
    for (int size = 1; size <= shards; ++size) {
      int next = 0;
      for (int rank = 0; rank < size; ++rank) {
        const ShardRange range = shards_of_rank(shards, rank, size);
        EXPECT_EQ(range.begin, next);
        EXPECT_GE(range.count(), shards / size);
        EXPECT_LE(range.count(), (shards + size - 1) / size);
        next = range.end;
      }
      EXPECT_EQ(next, shards);
    }
}

TEST(ShardRange, ElementsComeOneAfterTheOtherAndDifferByOneAtMost) {
  for (const std::int64_t count : {0, 1, 5, 8, 17, 1000})
    for (int shards = 1; shards <= 9; ++shards) {
      std::int64_t next = 0;
      for (int shard = 0; shard < shards; ++shard) {
        const ElementRange one = elements_of_shards(count, shards, {shard, shard + 1});
        EXPECT_EQ(one.begin, next);
        EXPECT_TRUE(one.count() == count / shards || one.count() == (count + shards - 1) / shards);
        EXPECT_EQ(elements_of_shards(count, shards, {0, shard + 1}).end, one.end);
        next = one.end;
      }
      EXPECT_EQ(next, count);
    }
}

TEST(ShardTree, NodesWithinARangeAreTheLargestOnes) {
  for (int shards = 1; shards <= 20; ++shards)
    for (int begin = 0; begin < shards; ++begin)
      for (int end = begin + 1; end <= shards; ++end) {
        int next = begin;
        const auto nodes = nodes_within({begin, end}, shards);
        for (std::size_t i = 0; i < nodes.size(); ++i) {
          EXPECT_EQ(nodes[i].begin, next);
          EXPECT_TRUE(is_node(nodes[i], shards));
          // No two of them are a node together.
          if (i > 0) {
            EXPECT_FALSE(is_node({nodes[i - 1].begin, nodes[i].end}, shards));
          }
          next = nodes[i].end;
        }
        EXPECT_EQ(next, end);
      }
  EXPECT_EQ(nodes_within({0, 8}, 8), (std::vector<ShardRange>{{0, 8}}));
  EXPECT_EQ(nodes_within({2, 5}, 8), (std::vector<ShardRange>{{2, 4}, {4, 5}}));
  EXPECT_EQ(nodes_within({4, 6}, 6), (std::vector<ShardRange>{{4, 6}}));
}

TEST(ShardSum, HasTheBitsOfTheTreeForAnyNumberOfRanks) {
  for (const int shards : {1, 2, 3, 4, 5, 6, 7, 8, 13, 16})
    for (int size = 1; size <= std::min(shards, 5); ++size)
      for (const std::size_t count :
           {std::size_t{0}, std::size_t{1}, std::size_t{17}, std::size_t{1000}, std::size_t{40003}}) {
        const std::vector<std::vector<float>> expected = {tree_sum(0, shards, count, 0), tree_sum(0, shards, count, 1)};
        run_engines(size, [&](Engine& engine) {
          auto sum = ShardSum::create(engine.runtime(), "gradients", shards, count).value();
          for (const int step : {0, 1, 0})
            EXPECT_TRUE(same_bits(step_of(*sum, step), expected[static_cast<std::size_t>(step)]))
                << shards << " shards on " << size << " ranks, " << count << " values";
        });
      }
}

TEST(ShardSum, IsTheSameOnSeveralHosts) {
  const auto expected = tree_sum(0, 7, 5000, 0);
  for (const std::vector<int>& hosts : {std::vector<int>{0, 0, 1}, std::vector<int>{0, 1, 2}})
    run_engines(
        3,
        [&](Engine& engine) {
          auto sum = ShardSum::create(engine.runtime(), "gradients", 7, 5000).value();
          EXPECT_TRUE(same_bits(step_of(*sum, 0), expected));
        },
        testing::quiet_options(), hosts);
}

TEST(ShardSum, TheOrderShows) {
  // Or else these tests could not find a wrong one.
  for (const int shards : {4, 5, 8})
    EXPECT_FALSE(same_bits(tree_sum(0, shards, 1000, 0), sum_one_by_one(shards, 1000)));
}

TEST(ShardSum, APieceOfNullIsZeros) {
  run_engines(2, [](Engine& engine) {
    auto sum = ShardSum::create(engine.runtime(), "gradients", 5, 30000).value();
    const std::vector<float> ones(10000, 1);
    for (int shard = sum->mine().begin; shard < sum->mine().end; ++shard) {
      const std::array<ShardPiece, 3> pieces = {{{nullptr, 10000}, {ones.data(), 10000}, {nullptr, 10000}}};
      ASSERT_TRUE(sum->add(shard, pieces));
    }
    const float* const result = sum->wait(kTimeout).value();
    for (std::size_t i = 0; i < 30000; ++i) ASSERT_EQ(result[i], i / 10000 == 1 ? 5 : 0) << i;
  });
}

TEST(ShardSum, AStepThatIsGivenUpLeavesNoTrace) {
  const auto expected = tree_sum(0, 6, 100, 0);
  run_engines(2, [&](Engine& engine) {
    auto sum = ShardSum::create(engine.runtime(), "gradients", 6, 100).value();
    const auto other = values_of(99, 100);
    const ShardPiece piece{other.data(), other.size()};
    ASSERT_TRUE(sum->add(sum->mine().begin, {&piece, 1}));
    sum->reset();
    EXPECT_TRUE(same_bits(step_of(*sum, 0), expected));
  });
}

TEST(ShardSum, RefusesWhatDoesNotFit) {
  run_engines(2, [](Engine& engine) {
    const auto few = ShardSum::create(engine.runtime(), "gradients", 1, 10);
    ASSERT_FALSE(few);
    EXPECT_THAT(few.error().message(), HasSubstr("2 ranks share 1 logical shard, and each needs one"));
    auto sum = ShardSum::create(engine.runtime(), "gradients", 4, 10).value();
    const std::vector<float> values(10, 1);
    const auto refusal = [&](int shard, std::size_t count) {
      const ShardPiece piece{values.data(), count};
      const Status added = sum->add(shard, {&piece, 1});
      return added ? std::string() : added.error().message();
    };
    const int first = sum->mine().begin;
    EXPECT_THAT(refusal(first + 1, 10), HasSubstr("the next one of this rank is " + std::to_string(first)));
    EXPECT_THAT(refusal(first, 9), HasSubstr("has 9 values, and should have 10"));
    EXPECT_EQ(refusal(first, 10), "");
    const auto early = sum->wait(kTimeout);
    ASSERT_FALSE(early);
    EXPECT_THAT(early.error().message(), HasSubstr("has not been added"));
    EXPECT_EQ(refusal(first + 1, 10), "");
    EXPECT_THAT(refusal(first + 2, 10), HasSubstr("shard " + std::to_string(first + 2)));
    EXPECT_EQ(*sum->wait(kTimeout).value(), 4);
  });
}

TEST(ShardSum, RanksThatDifferAreTold) {
  run_engines(2, [](Engine& engine) {
    auto sum = ShardSum::create(engine.runtime(), "gradients", engine.topology().rank == 0 ? 4 : 5, 10).value();
    const std::vector<float> values(10, 1);
    const ShardPiece piece{values.data(), 10};
    for (int shard = sum->mine().begin; shard < sum->mine().end; ++shard) ASSERT_TRUE(sum->add(shard, {&piece, 1}));
    const auto result = sum->wait(kTimeout);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(result.error().message(), HasSubstr("4 shards of 10 values"));
    EXPECT_THAT(result.error().message(), HasSubstr("5 shards of 10 values"));
  });
}

TEST(ShardSum, ALostRankEndsTheStep) {
  run_engines(3, [](Engine& engine) {
    auto sum = ShardSum::create(engine.runtime(), "gradients", 6, 1000).value();
    (void)step_of(*sum, 0);
    ASSERT_TRUE(engine.run({.name = "all have the sum", .op = {.kind = OpKind::kBarrier}}));
    if (engine.topology().rank == 1) {
      (void)engine.abort("the test ends here");
      return;
    }
    for (int shard = sum->mine().begin; shard < sum->mine().end; ++shard) {
      const auto values = values_of(shard, 1000);
      const ShardPiece piece{values.data(), values.size()};
      ASSERT_TRUE(sum->add(shard, {&piece, 1}));
    }
    const auto result = sum->wait(kTimeout);
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().message(), HasSubstr("the test ends here"));
  });
}

}  // namespace
}  // namespace xoe::engine

// Which of a batch's logical shards a rank computes.
#pragma once

#include <cstdint>

namespace xoe {

// Logical shards [begin, end).
struct ShardRange {
  int begin = 0;
  int end = 0;

  constexpr int count() const noexcept { return end - begin; }
  friend constexpr bool operator==(const ShardRange&, const ShardRange&) = default;
};

// Contiguous ranges, which differ by one shard at most. REQUIRES: 0 <= rank < size.
constexpr ShardRange shards_of_rank(int shards, int rank, int size) noexcept {
  const auto first = [&](std::int64_t number) { return static_cast<int>(std::int64_t{shards} * number / size); };
  return {first(rank), first(std::int64_t{rank} + 1)};
}

// The elements [begin, end) of `count` that are of the shards before and in `range`, where all `shards` share them out
// one after the other, the first ones taking one element more where it does not come out even.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  constexpr std::int64_t count() const noexcept { return end - begin; }
};
constexpr ElementRange elements_of_shards(std::int64_t count, int shards, ShardRange range) noexcept {
  const auto before = [&](std::int64_t shard) {
    const std::int64_t longer = count % shards;
    return shard * (count / shards) + (shard < longer ? shard : longer);
  };
  return {before(range.begin), before(range.end)};
}

}  // namespace xoe

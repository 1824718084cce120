// Intervals of time and their statistics.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace xoe::trace {

struct Stretch {
  std::int64_t start_ns = 0;
  std::int64_t stop_ns = 0;
};

struct LengthStats {
  std::uint64_t count = 0;
  std::int64_t total_ns = 0;  // the sum of all lengths, also where they overlap
  std::int64_t mean_ns = 0;
  std::int64_t p50_ns = 0;
  std::int64_t p99_ns = 0;
  std::int64_t max_ns = 0;
};

// A sum that saturates; only a hostile file reaches the limit.
std::int64_t sum_ns(std::int64_t a, std::int64_t b);

LengthStats length_stats(std::span<const Stretch> stretches);
// Sorted and without overlaps: nested and overlapping ones are merged.
std::vector<Stretch> joined(std::vector<Stretch> stretches);
// The total length of joined ones.
std::int64_t total_ns(std::span<const Stretch> stretches);
std::int64_t common_ns(std::span<const Stretch> a, std::span<const Stretch> b);
// What of `a` lies outside of `b`; both joined, as is the result.
std::vector<Stretch> subtract(std::span<const Stretch> a, std::span<const Stretch> b);

}  // namespace xoe::trace

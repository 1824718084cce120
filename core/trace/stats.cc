#include "core/trace/stats.h"

#include <algorithm>
#include <limits>

namespace xoe::trace {
namespace {

// The smallest length that at least `share` of all lengths do not exceed.
std::int64_t quantile(std::vector<std::int64_t>& lengths, std::size_t percent) {
  const std::size_t index = (lengths.size() * percent + 99) / 100;
  const auto place = lengths.begin() + static_cast<std::ptrdiff_t>(index == 0 ? 0 : index - 1);
  std::nth_element(lengths.begin(), place, lengths.end());
  return *place;
}

}  // namespace

std::int64_t sum_ns(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

LengthStats length_stats(std::span<const Stretch> stretches) {
  LengthStats stats;
  if (stretches.empty()) return stats;
  std::vector<std::int64_t> lengths;
  lengths.reserve(stretches.size());
  double total = 0;
  for (const Stretch& stretch : stretches) {
    lengths.push_back(stretch.stop_ns - stretch.start_ns);
    total += static_cast<double>(lengths.back());
  }
  stats.count = lengths.size();
  // A sum of plausible lengths fits; the sum of a hostile file saturates.
  stats.total_ns = static_cast<std::int64_t>(std::min(total, 9.0e18));
  stats.mean_ns = static_cast<std::int64_t>(total / static_cast<double>(lengths.size()));
  stats.p50_ns = quantile(lengths, 50);
  stats.p99_ns = quantile(lengths, 99);
  stats.max_ns = *std::max_element(lengths.begin(), lengths.end());
  return stats;
}

std::vector<Stretch> joined(std::vector<Stretch> stretches) {
  std::sort(stretches.begin(), stretches.end(),
            [](const Stretch& a, const Stretch& b) { return a.start_ns < b.start_ns; });
  std::vector<Stretch> result;
  for (const Stretch& stretch : stretches) {
    if (!result.empty() && stretch.start_ns <= result.back().stop_ns) {
      result.back().stop_ns = std::max(result.back().stop_ns, stretch.stop_ns);
    } else {
      result.push_back(stretch);
    }
  }
  return result;
}

std::int64_t total_ns(std::span<const Stretch> stretches) {
  std::int64_t total = 0;
  for (const Stretch& stretch : stretches) total += stretch.stop_ns - stretch.start_ns;
  return total;
}

std::int64_t common_ns(std::span<const Stretch> a, std::span<const Stretch> b) {
  std::int64_t common = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const std::int64_t start = std::max(a[i].start_ns, b[j].start_ns);
    const std::int64_t stop = std::min(a[i].stop_ns, b[j].stop_ns);
    common += std::max<std::int64_t>(stop - start, 0);
    if (a[i].stop_ns < b[j].stop_ns) {
      ++i;
    } else {
      ++j;
    }
  }
  return common;
}

std::vector<Stretch> subtract(std::span<const Stretch> a, std::span<const Stretch> b) {
  std::vector<Stretch> result;
  std::size_t first = 0;
  for (const Stretch& stretch : a) {
    while (first < b.size() && b[first].stop_ns <= stretch.start_ns) ++first;
    std::int64_t start = stretch.start_ns;
    for (std::size_t i = first; i < b.size() && b[i].start_ns < stretch.stop_ns; ++i) {
      if (b[i].start_ns > start) result.push_back({start, b[i].start_ns});
      start = std::max(start, b[i].stop_ns);
    }
    if (start < stretch.stop_ns) result.push_back({start, stretch.stop_ns});
  }
  return result;
}

}  // namespace xoe::trace

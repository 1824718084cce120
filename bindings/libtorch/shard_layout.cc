#include "shard_layout.h"

#include <algorithm>

namespace xoe::torch {

std::vector<BucketPlan> plan_from_last(std::span<const BucketParameter> parameters,
                                       const engine::BucketLimits& limits) {
  const std::vector<BucketParameter> reversed(parameters.rbegin(), parameters.rend());
  auto plans = engine::plan_buckets(reversed, limits);
  for (BucketPlan& plan : plans)
    for (std::size_t& parameter : plan.parameters) parameter = parameters.size() - 1 - parameter;
  return plans;
}

std::vector<std::size_t> shard_counts(std::size_t count, int size) {
  const std::size_t blocks = count / engine::kAlignElements;
  const std::size_t ranks = static_cast<std::size_t>(size);
  std::vector<std::size_t> counts(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    counts[rank] = (blocks * (rank + 1) / ranks - blocks * rank / ranks) * engine::kAlignElements;
  }
  return counts;
}

std::vector<ParameterSlice> slices_within(const BucketPlan& plan, std::span<const BucketParameter> parameters,
                                          std::size_t begin, std::size_t end) {
  std::vector<ParameterSlice> slices;
  for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
    const std::size_t start = plan.offsets[i];
    const std::size_t first = std::max(begin, start);
    const std::size_t last = std::min(end, start + parameters[plan.parameters[i]].count());
    if (first >= last) continue;
    slices.push_back({plan.parameters[i], first, first - start, last - first});
  }
  return slices;
}

}  // namespace xoe::torch

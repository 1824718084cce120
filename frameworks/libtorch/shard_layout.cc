#include "frameworks/libtorch/shard_layout.h"

#include <algorithm>

namespace xoe::torch {

std::vector<ParameterSlice> slices_within(const engine::BucketPlan& plan,
                                          std::span<const engine::BucketParameter> parameters,
                                          const engine::BucketPart& part) {
  std::vector<ParameterSlice> slices;
  for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
    const std::size_t start = plan.offsets[i];
    const std::size_t first = std::max(part.begin, start);
    const std::size_t last = std::min(part.begin + part.count, start + parameters[plan.parameters[i]].count());
    if (first >= last) continue;
    slices.push_back({plan.parameters[i], first, first - start, last - first});
  }
  return slices;
}

}  // namespace xoe::torch

#include "layout.h"

#include <algorithm>
#include <iterator>

namespace xoe::torch {
namespace {

// Empty parameters take space too, so that no bucket is empty.
std::size_t align_up(std::size_t count) {
  return (std::max<std::size_t>(count, 1) + kAlignElements - 1) / kAlignElements * kAlignElements;
}

}  // namespace

std::vector<BucketPlan> plan_buckets(std::span<const ParameterSpec> parameters, std::size_t first_bytes,
                                     std::size_t bytes) {
  std::vector<BucketPlan> closed;
  std::vector<BucketPlan> open;  // at most one per dtype, in the order of their first parameter
  for (std::size_t index = parameters.size(); index-- > 0;) {
    const ParameterSpec& parameter = parameters[index];
    const std::size_t size = dtype_size(parameter.dtype);
    const std::size_t limit = closed.empty() ? std::min(first_bytes, bytes) : bytes;
    auto bucket = std::ranges::find(open, parameter.dtype, &BucketPlan::dtype);
    if (bucket != open.end() && (bucket->count + align_up(parameter.count)) * size > limit) {
      closed.push_back(std::move(*bucket));
      open.erase(bucket);
      bucket = open.end();
    }
    if (bucket == open.end()) {
      open.push_back({.dtype = parameter.dtype, .count = 0, .parameters = {}, .offsets = {}});
      bucket = open.end() - 1;
    }
    bucket->parameters.push_back(index);
    bucket->offsets.push_back(bucket->count);
    bucket->count += align_up(parameter.count);
  }
  std::ranges::move(open, std::back_inserter(closed));
  return closed;
}

std::string bucket_name(std::size_t index, const BucketPlan& plan, std::span<const ParameterSpec> parameters) {
  std::string name = "bucket " + std::to_string(index) + " (" + parameters[plan.parameters.front()].name;
  if (plan.parameters.size() > 1) name += " .. " + parameters[plan.parameters.back()].name;
  return name + ")";
}

std::vector<std::size_t> shard_counts(std::size_t count, int size) {
  const std::size_t blocks = count / kAlignElements;
  const std::size_t ranks = static_cast<std::size_t>(size);
  std::vector<std::size_t> counts(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    counts[rank] = (blocks * (rank + 1) / ranks - blocks * rank / ranks) * kAlignElements;
  }
  return counts;
}

std::vector<ParameterSlice> slices_within(const BucketPlan& plan, std::span<const ParameterSpec> parameters,
                                          std::size_t begin, std::size_t end) {
  std::vector<ParameterSlice> slices;
  for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
    const std::size_t start = plan.offsets[i];
    const std::size_t first = std::max(begin, start);
    const std::size_t last = std::min(end, start + parameters[plan.parameters[i]].count);
    if (first >= last) continue;
    slices.push_back({plan.parameters[i], first, first - start, last - first});
  }
  return slices;
}

}  // namespace xoe::torch

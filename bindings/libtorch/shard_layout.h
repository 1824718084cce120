// The layout of gradients, from the last parameter to the first, and the part of each bucket that a rank owns. Pure
// functions.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/buckets/bucket_plan.h"

namespace xoe::torch {

using engine::BucketParameter;
using engine::BucketPlan;

// Buckets in the order in which backward passes fill them, as engine::plan_buckets().
std::vector<BucketPlan> plan_from_last(std::span<const BucketParameter> parameters, const engine::BucketLimits& limits);

// The number of elements of a bucket that each rank owns, in rank order: multiples of engine::kAlignElements. So a
// kernel processes each element of a part with the same (vector or tail) code as when it works on the whole parameter.
std::vector<std::size_t> shard_counts(std::size_t count, int size);

// The part of a parameter in [begin, end) of its bucket.
struct ParameterSlice {
  std::size_t parameter = 0;
  std::size_t in_bucket = 0;     // first element, counted in the bucket
  std::size_t in_parameter = 0;  // ... and in the parameter
  std::size_t count = 0;
};
std::vector<ParameterSlice> slices_within(const BucketPlan& plan, std::span<const BucketParameter> parameters,
                                          std::size_t begin, std::size_t end);

}  // namespace xoe::torch

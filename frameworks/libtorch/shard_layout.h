// The slices of parameters that a rank owns. Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/engine/buckets/bucket_plan.h"

namespace xoe::torch {

// The part of a parameter that lies in a part of its bucket.
struct ParameterSlice {
  std::size_t parameter = 0;
  std::size_t in_bucket = 0;     // first element, counted in the bucket
  std::size_t in_parameter = 0;  // ... and in the parameter
  std::size_t count = 0;
};
std::vector<ParameterSlice> slices_within(const engine::BucketPlan& plan,
                                          std::span<const engine::BucketParameter> parameters,
                                          const engine::BucketPart& part);

}  // namespace xoe::torch

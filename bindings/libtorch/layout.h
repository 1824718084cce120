// The layout of gradients: each one's bucket and offset, and the part of each bucket that a rank owns. Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "xoe/tensor.h"

namespace xoe::torch {

// Parameters start, and parts of buckets end, at multiples of this many elements, two of the widest SIMD registers. So
// a kernel processes each element of a part with the same (vector or tail) code as when it works on the whole
// parameter.
inline constexpr std::size_t kAlignElements = 64;

struct ParameterSpec {
  std::string name;
  std::size_t count = 0;
  DType dtype = DType::kFloat32;
};

struct BucketPlan {
  DType dtype = DType::kFloat32;
  std::size_t count = 0;                // elements, a multiple of kAlignElements
  std::vector<std::size_t> parameters;  // indices of specs, in the order of their offsets
  std::vector<std::size_t> offsets;     // the first element of each
};

// Buckets of one dtype each, filled with parameters from last to first, in the order in which they become full. A
// bucket holds at least one parameter, and exceeds its size only for a single larger one.
std::vector<BucketPlan> plan_buckets(std::span<const ParameterSpec> parameters, std::size_t first_bytes,
                                     std::size_t bytes);

// "bucket 2 (first .. last)"
std::string bucket_name(std::size_t index, const BucketPlan& plan, std::span<const ParameterSpec> parameters);

// The number of elements of a bucket that each rank owns, in rank order.
std::vector<std::size_t> shard_counts(std::size_t count, int size);

// The part of a parameter in [begin, end) of its bucket.
struct ParameterSlice {
  std::size_t parameter = 0;
  std::size_t in_bucket = 0;     // first element, counted in the bucket
  std::size_t in_parameter = 0;  // ... and in the parameter
  std::size_t count = 0;
};
std::vector<ParameterSlice> slices_within(const BucketPlan& plan, std::span<const ParameterSpec> parameters,
                                          std::size_t begin, std::size_t end);

}  // namespace xoe::torch

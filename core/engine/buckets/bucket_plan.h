// Which gradients share a bucket, and where each lies in it. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "xoe/tensor.h"

namespace xoe::engine {

// Gradients start at multiples of this many elements, two of the widest SIMD registers.
inline constexpr std::size_t kAlignElements = 64;

struct BucketParameter {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;  // in the order of its memory

  std::size_t count() const noexcept;
  std::string describe() const;  // "float32 [64, 3, 7, 7]"
};

// Elements of a bucket.
struct BucketPart {
  std::size_t begin = 0;
  std::size_t count = 0;
};

struct BucketLimits {
  std::size_t first_bytes = 0;  // of the bucket that becomes full first
  std::size_t bytes = 0;        // of all others
};

struct BucketPlan {
  DType dtype = DType::kFloat32;
  std::size_t count = 0;                // elements, a multiple of kAlignElements
  std::vector<std::size_t> parameters;  // indices, in the order of their offsets
  std::vector<std::size_t> offsets;     // the first element of each

  std::size_t bytes() const noexcept { return count * dtype_size(dtype); }
};

// Buckets of one type each, filled in the order of `parameters`, in the order in which they become full. Each parameter
// is in exactly one bucket. A bucket exceeds its limit only for a single parameter that is larger.
std::vector<BucketPlan> plan_buckets(std::span<const BucketParameter> parameters, const BucketLimits& limits);

// The part of a bucket that each of `size` ranks owns where it is sharded, in rank order: multiples of kAlignElements,
// so that a kernel processes each element of a part with the same (vector or tail) code as in the whole parameter.
BucketPart part_of(const BucketPlan& plan, int rank, int size);

// "bucket 2 (first .. last)"
std::string bucket_name(std::size_t index, const BucketPlan& plan, std::span<const BucketParameter> parameters);

}  // namespace xoe::engine

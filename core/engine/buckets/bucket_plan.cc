#include "core/engine/buckets/bucket_plan.h"

#include <algorithm>
#include <iterator>

#include "core/base/error.h"

namespace xoe::engine {
namespace {

constexpr std::size_t kLongestName = 200;  // of a parameter in a bucket's name

// Empty parameters take space too, so that no bucket is empty.
std::size_t align_up(std::size_t count) {
  return (std::max<std::size_t>(count, 1) + kAlignElements - 1) / kAlignElements * kAlignElements;
}

std::string_view shortened(std::string_view name) { return name.substr(0, kLongestName); }

}  // namespace

std::size_t BucketParameter::count() const noexcept {
  std::size_t elements = 1;
  for (const std::int64_t dimension : shape) elements *= static_cast<std::size_t>(dimension);
  return elements;
}

std::string BucketParameter::describe() const {
  return fmt::format("{} [{}]", dtype_name(dtype), fmt::join(shape, ", "));
}

std::vector<BucketPlan> plan_buckets(std::span<const BucketParameter> parameters, const BucketLimits& limits) {
  std::vector<BucketPlan> full;
  std::vector<BucketPlan> open;  // at most one of each type, in the order of their first parameters
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    const DType dtype = parameters[index].dtype;
    const std::size_t space = align_up(parameters[index].count());
    const std::size_t limit = full.empty() ? std::min(limits.first_bytes, limits.bytes) : limits.bytes;
    auto bucket = std::ranges::find(open, dtype, &BucketPlan::dtype);
    if (bucket != open.end() && (bucket->count + space) * dtype_size(dtype) > limit) {
      full.push_back(std::move(*bucket));
      open.erase(bucket);
      bucket = open.end();
    }
    if (bucket == open.end())
      bucket = open.insert(open.end(), {.dtype = dtype, .count = 0, .parameters = {}, .offsets = {}});
    bucket->parameters.push_back(index);
    bucket->offsets.push_back(bucket->count);
    bucket->count += space;
  }
  std::ranges::move(open, std::back_inserter(full));
  return full;
}

// As a reduce-scatter cuts rows of kAlignElements.
BucketPart part_of(const BucketPlan& plan, int rank, int size) {
  const std::size_t rows = plan.count / kAlignElements;
  const std::size_t ranks = static_cast<std::size_t>(size), own = static_cast<std::size_t>(rank);
  return {.begin = (rows / ranks * own + std::min(own, rows % ranks)) * kAlignElements,
          .count = (rows / ranks + (own < rows % ranks ? 1 : 0)) * kAlignElements};
}

std::string bucket_name(std::size_t index, const BucketPlan& plan, std::span<const BucketParameter> parameters) {
  const auto first = shortened(parameters[plan.parameters.front()].name);
  if (plan.parameters.size() == 1) return fmt::format("bucket {} ({})", index, first);
  return fmt::format("bucket {} ({} .. {})", index, first, shortened(parameters[plan.parameters.back()].name));
}

}  // namespace xoe::engine

#include "frameworks/libtorch/shard_layout.h"

#include <gtest/gtest.h>

#include <numeric>

namespace xoe::torch {
namespace {

using engine::BucketParameter;

std::vector<BucketParameter> floats(std::initializer_list<std::int64_t> counts) {
  std::vector<BucketParameter> specs;
  for (const std::int64_t count : counts)
    specs.push_back({"p" + std::to_string(specs.size()), DType::kFloat32, {count}});
  return specs;
}

TEST(Shards, CoverEachParameterOnce) {
  const auto specs = floats({1, 63, 64, 65, 1000, 3});
  for (const auto& plan : engine::plan_buckets(specs, {.first_bytes = 1 << 20, .bytes = 1 << 20})) {
    for (const int size : {1, 2, 3, 7, 64}) {
      std::vector<std::vector<int>> hits;
      for (const auto& spec : specs) hits.emplace_back(spec.count(), 0);
      for (int rank = 0; rank < size; ++rank) {
        const engine::BucketPart part = engine::part_of(plan, rank, size);
        for (const ParameterSlice& slice : slices_within(plan, specs, part)) {
          EXPECT_EQ(slice.in_parameter % engine::kAlignElements, 0u);
          EXPECT_GE(slice.in_bucket, part.begin);
          for (std::size_t i = 0; i < slice.count; ++i) ++hits[slice.parameter][slice.in_parameter + i];
        }
      }
      for (const auto& hit : hits) EXPECT_EQ(std::accumulate(hit.begin(), hit.end(), 0), static_cast<int>(hit.size()));
    }
  }
}

}  // namespace
}  // namespace xoe::torch

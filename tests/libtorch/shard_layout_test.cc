#include "shard_layout.h"

#include <gtest/gtest.h>

#include <numeric>

namespace xoe::torch {
namespace {

std::vector<BucketParameter> floats(std::initializer_list<std::size_t> counts) {
  std::vector<BucketParameter> specs;
  for (const std::size_t count : counts)
    specs.push_back({"p" + std::to_string(specs.size()), DType::kFloat32, {static_cast<std::int64_t>(count)}});
  return specs;
}

TEST(PlanFromLast, FillsFromTheLastParameterAndStartsSmall) {
  const auto specs = floats({64, 64, 64, 64, 64});
  const auto plans = plan_from_last(specs, {.first_bytes = 256, .bytes = 512});
  ASSERT_EQ(plans.size(), 3u);
  EXPECT_EQ(plans[0].parameters, (std::vector<std::size_t>{4}));
  EXPECT_EQ(plans[1].parameters, (std::vector<std::size_t>{3, 2}));
  EXPECT_EQ(plans[1].offsets, (std::vector<std::size_t>{0, 64}));
  EXPECT_EQ(plans[2].parameters, (std::vector<std::size_t>{1, 0}));
  EXPECT_EQ(engine::bucket_name(1, plans[1], specs), "bucket 1 (p3 .. p2)");
}

TEST(Shards, CoverEachParameterOnce) {
  const auto specs = floats({1, 63, 64, 65, 1000, 3});
  for (const auto& plan : plan_from_last(specs, {.first_bytes = 1 << 20, .bytes = 1 << 20})) {
    for (const int size : {1, 2, 3, 7, 64}) {
      const auto counts = shard_counts(plan.count, size);
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), plan.count);
      std::vector<std::vector<int>> hits;
      for (const auto& spec : specs) hits.emplace_back(spec.count(), 0);
      std::size_t begin = 0;
      for (const std::size_t count : counts) {
        EXPECT_EQ(count % engine::kAlignElements, 0u);
        for (const ParameterSlice& slice : slices_within(plan, specs, begin, begin + count)) {
          EXPECT_EQ(slice.in_parameter % engine::kAlignElements, 0u);
          EXPECT_GE(slice.in_bucket, begin);
          for (std::size_t i = 0; i < slice.count; ++i) ++hits[slice.parameter][slice.in_parameter + i];
        }
        begin += count;
      }
      for (const auto& hit : hits) EXPECT_EQ(std::accumulate(hit.begin(), hit.end(), 0), static_cast<int>(hit.size()));
    }
  }
}

}  // namespace
}  // namespace xoe::torch

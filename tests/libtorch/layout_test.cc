#include "layout.h"

#include <gtest/gtest.h>

#include <numeric>

namespace xoe::torch {
namespace {

std::vector<ParameterSpec> floats(std::initializer_list<std::size_t> counts) {
  std::vector<ParameterSpec> specs;
  for (const std::size_t count : counts) specs.push_back({"p" + std::to_string(specs.size()), count, DType::kFloat32});
  return specs;
}

TEST(PlanBuckets, FillsFromTheLastParameterAndStartsSmall) {
  const auto specs = floats({64, 64, 64, 64, 64});
  const auto plans = plan_buckets(specs, 256, 512);
  ASSERT_EQ(plans.size(), 3u);
  EXPECT_EQ(plans[0].parameters, (std::vector<std::size_t>{4}));
  EXPECT_EQ(plans[1].parameters, (std::vector<std::size_t>{3, 2}));
  EXPECT_EQ(plans[1].offsets, (std::vector<std::size_t>{0, 64}));
  EXPECT_EQ(plans[2].parameters, (std::vector<std::size_t>{1, 0}));
  EXPECT_EQ(bucket_name(1, plans[1], specs), "bucket 1 (p3 .. p2)");
}

TEST(PlanBuckets, LargeParametersGetTheirOwn) {
  const auto plans = plan_buckets(floats({10, 100000, 10}), 1024, 1024);
  ASSERT_EQ(plans.size(), 3u);
  EXPECT_EQ(plans[1].count, 100032u);
}

TEST(PlanBuckets, OneTypeEach) {
  auto specs = floats({10, 10, 10});
  specs[1].dtype = DType::kBfloat16;
  const auto plans = plan_buckets(specs, 4096, 4096);
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].parameters, (std::vector<std::size_t>{2, 0}));
  EXPECT_EQ(plans[1].parameters, (std::vector<std::size_t>{1}));
}

TEST(PlanBuckets, EmptyParametersHaveAPlace) {
  const auto plans = plan_buckets(floats({0, 0}), 4096, 4096);
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].offsets, (std::vector<std::size_t>{0, 64}));
}

TEST(Shards, CoverEachParameterOnce) {
  const auto specs = floats({1, 63, 64, 65, 1000, 3});
  for (const auto& plan : plan_buckets(specs, 1 << 20, 1 << 20)) {
    for (const int size : {1, 2, 3, 7, 64}) {
      const auto counts = shard_counts(plan.count, size);
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), plan.count);
      std::vector<std::vector<int>> hits;
      for (const auto& spec : specs) hits.emplace_back(spec.count, 0);
      std::size_t begin = 0;
      for (const std::size_t count : counts) {
        EXPECT_EQ(count % kAlignElements, 0u);
        for (const ParameterSlice& slice : slices_within(plan, specs, begin, begin + count)) {
          EXPECT_EQ(slice.in_parameter % kAlignElements, 0u);
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

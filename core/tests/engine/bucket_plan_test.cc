// The layout of gradients in buckets, for many lists of parameters and limits.
#include "core/engine/buckets/bucket_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace xoe::engine {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kBfloat16, DType::kFloat64};

BucketParameter parameter(std::string name, std::vector<std::int64_t> shape, DType dtype = DType::kFloat32) {
  return {.name = std::move(name), .dtype = dtype, .shape = std::move(shape)};
}

std::size_t space(const BucketParameter& p) {
  return (std::max<std::size_t>(p.count(), 1) + kAlignElements - 1) / kAlignElements * kAlignElements;
}

// Whatever the input is: each parameter once, in order, aligned, without overlap, one type, within the limit.
void check(const std::vector<BucketParameter>& parameters, const BucketLimits& limits) {
  const auto plans = plan_buckets(parameters, limits);
  std::vector<int> times(parameters.size());
  for (std::size_t b = 0; b < plans.size(); ++b) {
    const BucketPlan& plan = plans[b];
    ASSERT_FALSE(plan.parameters.empty());
    ASSERT_EQ(plan.parameters.size(), plan.offsets.size());
    EXPECT_TRUE(std::ranges::is_sorted(plan.parameters));
    std::size_t end = 0;
    for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
      const BucketParameter& p = parameters[plan.parameters[i]];
      ++times[plan.parameters[i]];
      EXPECT_EQ(p.dtype, plan.dtype);
      EXPECT_EQ(plan.offsets[i], end);
      EXPECT_EQ(plan.offsets[i] % kAlignElements, 0U);
      end += space(p);
    }
    EXPECT_EQ(plan.count, end);
    EXPECT_EQ(plan.bytes(), end * dtype_size(plan.dtype));
    const std::size_t limit = b == 0 ? std::min(limits.first_bytes, limits.bytes) : limits.bytes;
    EXPECT_TRUE(plan.parameters.size() == 1 || plan.bytes() <= limit) << "bucket " << b;
  }
  EXPECT_TRUE(std::ranges::all_of(times, [](int n) { return n == 1; }));
}

TEST(BucketPlan, EveryParameterIsInOneBucketWithinTheLimits) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<BucketParameter> parameters;
    const auto count = random() % 40;
    for (std::size_t i = 0; i < count; ++i)
      parameters.push_back(parameter(
          std::to_string(i), {static_cast<std::int64_t>(random() % 700), static_cast<std::int64_t>(1 + random() % 3)},
          kTypes[random() % 3]));
    const std::size_t bytes = 1 + random() % 20000;
    check(parameters, {.first_bytes = 1 + random() % bytes, .bytes = bytes});
  }
}

TEST(BucketPlan, FillsBucketsInTheOrderOfParameters) {
  const std::vector<BucketParameter> parameters{parameter("a", {64}), parameter("b", {64}), parameter("c", {64}),
                                                parameter("d", {1000}), parameter("e", {})};
  const auto plans = plan_buckets(parameters, {.first_bytes = 256, .bytes = 512});
  ASSERT_EQ(plans.size(), 4U);
  EXPECT_EQ(plans[0].parameters, (std::vector<std::size_t>{0}));
  EXPECT_EQ(plans[1].parameters, (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(plans[2].parameters, (std::vector<std::size_t>{3}));  // larger than a bucket
  EXPECT_EQ(plans[3].parameters, (std::vector<std::size_t>{4}));
  EXPECT_EQ(bucket_name(1, plans[1], parameters), "bucket 1 (b .. c)");
  EXPECT_EQ(bucket_name(3, plans[3], parameters), "bucket 3 (e)");
}

TEST(BucketPlan, TypesHaveBucketsOfTheirOwn) {
  const std::vector<BucketParameter> parameters{parameter("a", {8}), parameter("b", {8}, DType::kBfloat16),
                                                parameter("c", {8}), parameter("d", {8}, DType::kBfloat16)};
  const auto plans = plan_buckets(parameters, {.first_bytes = 1 << 20, .bytes = 1 << 20});
  ASSERT_EQ(plans.size(), 2U);
  EXPECT_EQ(plans[0].parameters, (std::vector<std::size_t>{0, 2}));
  EXPECT_EQ(plans[1].parameters, (std::vector<std::size_t>{1, 3}));
}

TEST(BucketPlan, PartsOfRanksAreWholeRowsThatCoverTheBucket) {
  for (std::size_t rows = 0; rows < 20; ++rows)
    for (const int size : {1, 2, 3, 7, 64}) {
      BucketPlan plan;
      plan.count = rows * kAlignElements;
      std::size_t end = 0;
      for (int rank = 0; rank < size; ++rank) {
        const BucketPart part = part_of(plan, rank, size);
        EXPECT_EQ(part.begin, end);
        EXPECT_EQ(part.count % kAlignElements, 0U);
        EXPECT_LE(part.count, (rows / static_cast<std::size_t>(size) + 1) * kAlignElements);
        end += part.count;
      }
      EXPECT_EQ(end, plan.count);
    }
}

TEST(BucketPlan, LongNamesAreCut) {
  const std::vector<BucketParameter> parameters{parameter(std::string(1024, 'x'), {8}),
                                                parameter(std::string(1024, 'y'), {8})};
  const auto plans = plan_buckets(parameters, {.first_bytes = 1 << 20, .bytes = 1 << 20});
  EXPECT_LT(bucket_name(0, plans[0], parameters).size(), 500U);
}

}  // namespace
}  // namespace xoe::engine

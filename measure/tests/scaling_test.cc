// The cost model of a step, and tables of scaling.
#include "measure/cli/scaling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace xoe::bench {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr CostModel kTrue = {.compute = 0.1, .seconds_per_byte = 1e-10, .latency = 2e-5};

std::vector<CostPoint> points_of(Fabric fabric, const std::vector<int>& sizes, double noise = 0) {
  std::vector<CostPoint> points;
  for (const int ranks : sizes) {
    CostPoint point = {.ranks = ranks, .work = 1, .bytes = 1e8, .rounds = 10, .seconds = {}};
    const double seconds = predict_seconds(kTrue, fabric, point);
    for (const double sign : {-1.0, 0.0, 1.0}) point.seconds.push_back(seconds * (1 + noise * sign));
    points.push_back(point);
  }
  return points;
}

TEST(BenchCostModel, AStepIsTheSumOfItsTerms) {
  const CostPoint point = {.ranks = 4, .work = 2, .bytes = 1e8, .rounds = 10, .seconds = {}};
  EXPECT_DOUBLE_EQ(predict_seconds(kTrue, Fabric::kMemory, point), 0.2 + 1e-10 * 1e8 * 3 + 2e-5 * 10 * 4);
  EXPECT_DOUBLE_EQ(predict_seconds(kTrue, Fabric::kLinks, point), 0.2 + 1e-10 * 1e8 * 1.5 + 2e-5 * 10 * 4);
}

TEST(BenchCostModel, AFitFindsTheConstantsThatMadeTheSteps) {
  for (const Fabric fabric : {Fabric::kMemory, Fabric::kLinks}) {
    const CostModel model = fit_cost(points_of(fabric, {1, 2, 4, 8, 16}), fabric);
    EXPECT_NEAR(model.compute, kTrue.compute, 1e-6);
    EXPECT_NEAR(model.seconds_per_byte, kTrue.seconds_per_byte, 1e-14);
    EXPECT_NEAR(model.latency, kTrue.latency, 1e-9);
  }
}

TEST(BenchCostModel, NoConstantIsNegative) {
  std::vector<CostPoint> points = points_of(Fabric::kLinks, {1, 2, 4});
  points[1].seconds = {0.05};  // faster together than alone
  points[2].seconds = {0.04};
  const CostModel model = fit_cost(points, Fabric::kLinks);
  EXPECT_GT(model.compute, 0);
  EXPECT_GE(model.seconds_per_byte, 0);
  EXPECT_GE(model.latency, 0);
}

TEST(BenchCostModel, PredictionsHoldTheTruthAndRepeatThemselves) {
  const auto measured = points_of(Fabric::kLinks, {1, 2, 4, 8}, 0.02);
  std::vector<CostPoint> larger = points_of(Fabric::kLinks, {64, 1024});
  const auto predicted = predict(measured, larger, Fabric::kLinks, 3);
  ASSERT_EQ(predicted.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_LE(predicted[i].interval.low, larger[i].seconds[1]);
    EXPECT_GE(predicted[i].interval.high, larger[i].seconds[1]);
    EXPECT_LT(predicted[i].interval.low, predicted[i].interval.high);
  }
  EXPECT_EQ(predict(measured, larger, Fabric::kLinks, 3)[1].interval.high, predicted[1].interval.high);
}

Scaling scaling_of(const std::vector<std::pair<int, double>>& speeds, ScalingKind kind = ScalingKind::kWeak) {
  Scaling scaling = {.kind = kind, .cores = 64, .points = {}};
  for (const auto& [ranks, speed] : speeds) {
    ScalePoint point = {.ranks = ranks, .result = {}};
    point.result.model = "resnet50";
    point.result.ranks = point.result.local_ranks = ranks;
    point.result.batch = kind == ScalingKind::kWeak ? 32 : 32 / ranks;
    point.result.reduced_step_bytes = ranks > 1 ? 100'000'000 : 0;
    point.result.repeats = {{.images_per_s = speed, .step_ms = 1}, {.images_per_s = speed * 1.01, .step_ms = 1}};
    scaling.points.push_back(point);
  }
  return scaling;
}

// The figures of a published run: 2757, 5392 and 10675 images/s on 1, 2 and 4 nodes.
TEST(BenchScaling, SpeedUpAndEfficiencyAreOfTheSmallestSize) {
  const ScalingReport report = report_scaling(scaling_of({{1, 2757.21}, {2, 5391.75}, {4, 10675.09}}), 1);
  ASSERT_EQ(report.rows.size(), 3U);
  EXPECT_EQ(report.rows[0].efficiency, 1);
  EXPECT_NEAR(report.rows[2].speed_up, 3.872, 5e-4);
  EXPECT_NEAR(report.rows[2].efficiency, 0.968, 5e-4);
  EXPECT_THAT(report.notes, IsEmpty());
  ASSERT_EQ(report.predicted.size(), 4U);
  EXPECT_EQ(report.predicted[0].ranks, 8);
  EXPECT_GT(report.predicted[0].images_per_s, report.rows[2].speed.mean);
  EXPECT_LE(report.predicted[0].interval.low, report.predicted[0].images_per_s * (1 + 1e-9));
}

TEST(BenchScaling, TwoSizesAreTooFewForAModel) {
  const ScalingReport report = report_scaling(scaling_of({{1, 100}, {2, 190}}), 1);
  EXPECT_THAT(report.predicted, IsEmpty());
  EXPECT_THAT(report.notes, Contains("a cost model needs 3 numbers of ranks, and there are 2"));
}

TEST(BenchScaling, StrongScalingPredictsTheSameBatchOnMoreRanks) {
  const Scaling scaling = scaling_of({{1, 100}, {2, 195}, {4, 370}}, ScalingKind::kStrong);
  const ScalingReport report = report_scaling(scaling, 1);
  ASSERT_FALSE(report.predicted.empty());
  EXPECT_GT(report.predicted[0].efficiency, 0);
  EXPECT_LT(report.predicted[0].efficiency, 1);
  EXPECT_THAT(scaling_text(scaling, report), HasSubstr("strong scaling of resnet50, batch 32 in all"));
}

TEST(BenchScaling, EveryOutputTellsOfAnEmulation) {
  Scaling scaling = scaling_of({{1, 100}, {2, 190}, {4, 360}});
  for (ScalePoint& point : scaling.points) point.result.emulated_images_per_s = 300;
  const ScalingReport report = report_scaling(scaling, 1);
  EXPECT_THAT(scaling_text(scaling, report), HasSubstr("EMULATION"));
  EXPECT_THAT(scaling_page(scaling, report), HasSubstr("EMULATION"));
  EXPECT_EQ(to_json(scaling, report)["emulated_images_per_s"], 300.0);
}

TEST(BenchScaling, NotesRanksThatShareCores) {
  Scaling scaling = scaling_of({{1, 100}, {2, 190}, {4, 200}});
  scaling.cores = 2;
  EXPECT_THAT(report_scaling(scaling, 1).notes, Contains(HasSubstr("4 ranks of 1 thread shared 2 cores")));
}

TEST(BenchScaling, TheJsonHasEverySizeWithItsResult) {
  const Scaling scaling = scaling_of({{1, 100}, {2, 190}, {4, 360}});
  const auto json = to_json(scaling, report_scaling(scaling, 1));
  EXPECT_EQ(json["sizes"][2]["ranks"], 4);
  EXPECT_EQ(json["sizes"][2]["result"]["model"], "resnet50");
  EXPECT_EQ(json["predicted"].size(), 4U);
  EXPECT_GE(json["model"]["compute_seconds"], 0.0);
}

}  // namespace
}  // namespace xoe::bench

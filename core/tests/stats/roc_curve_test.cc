#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "xoe/stats.h"

namespace xoe::stats {
namespace {

double area_under(const std::vector<RocPoint>& points) {
  double area = 0;
  for (std::size_t i = 1; i < points.size(); ++i)
    area += (points[i].false_positives - points[i - 1].false_positives) *
            (points[i].true_positives + points[i - 1].true_positives) / 2;
  return area;
}

TEST(RocCurve, GoesThroughEveryThreshold) {
  const auto points = roc_curve(std::vector<double>{4, 3, 2, 2, 1}, std::vector<std::uint8_t>{1, 0, 1, 0, 0});
  ASSERT_TRUE(points);
  ASSERT_EQ(points->size(), 5U);
  EXPECT_EQ((*points)[1].true_positives, 0.5);
  EXPECT_EQ((*points)[1].false_positives, 0);
  EXPECT_NEAR((*points)[3].false_positives, 2.0 / 3, 1e-15);  // both scores of 2 at once
  EXPECT_EQ((*points)[3].true_positives, 1);
  EXPECT_EQ(points->back().false_positives, 1);
}

TEST(RocCurve, ThinnedKeepsItsArea) {
  std::mt19937 random(5);
  for (const double prevalence : {0.002, 0.1, 0.5}) {
    std::vector<double> scores;
    std::vector<std::uint8_t> positive;
    for (int i = 0; i < 20000; ++i) {
      positive.push_back(i < 2 || std::bernoulli_distribution(prevalence)(random) ? 1 : 0);
      scores.push_back(std::round(10 * std::normal_distribution<>(positive.back(), 1)(random)) / 10);
    }
    const auto points = roc_curve(scores, positive, 100);
    ASSERT_TRUE(points);
    EXPECT_LE(points->size(), 402U);
    EXPECT_NEAR(area_under(*points), auroc(scores, positive)->value, 0.01);
    for (std::size_t i = 1; i < points->size(); ++i) {
      EXPECT_GE((*points)[i].false_positives, (*points)[i - 1].false_positives);
      EXPECT_GE((*points)[i].true_positives, (*points)[i - 1].true_positives);
    }
  }
}

TEST(RocCurve, RefusesOneClass) {
  const auto points = roc_curve(std::vector<double>{1, 2, 3}, std::vector<std::uint8_t>{1, 1, 1});
  ASSERT_FALSE(points);
  EXPECT_EQ(points.error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace xoe::stats

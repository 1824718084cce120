#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "xoe/stats.h"

namespace xoe::stats {
namespace {

using testing::HasSubstr;

struct Sample {
  std::vector<double> scores;
  std::vector<std::uint8_t> positive;
};

// Levels: so many distinct scores, hence ties.
Sample random_sample(std::mt19937& random, std::size_t count, double prevalence, int levels) {
  Sample sample;
  for (std::size_t i = 0; i < count; ++i) {
    sample.positive.push_back(i < 2 || (i > 3 && std::bernoulli_distribution(prevalence)(random)) ? 1 : 0);
    const int level = std::uniform_int_distribution(0, levels)(random) + (sample.positive.back() != 0 ? levels / 4 : 0);
    sample.scores.push_back(0.1 * level);
  }
  return sample;
}

// The definitions, pair by pair.
struct Reference {
  double value = 0;
  std::vector<double> components;  // V10 of positives, V01 of negatives
  double positives = 0;
  double negatives = 0;
};

Reference reference(const Sample& sample) {
  Reference result;
  result.components.resize(sample.scores.size());
  for (const std::uint8_t one : sample.positive) (one != 0 ? result.positives : result.negatives) += 1;
  for (std::size_t i = 0; i < sample.scores.size(); ++i)
    for (std::size_t j = 0; j < sample.scores.size(); ++j) {
      if (sample.positive[i] == 0 || sample.positive[j] != 0) continue;
      const double order = sample.scores[i] > sample.scores[j] ? 1.0 : sample.scores[i] == sample.scores[j] ? 0.5 : 0.0;
      result.value += order / (result.positives * result.negatives);
      result.components[i] += order / result.negatives;
      result.components[j] += order / result.positives;
    }
  return result;
}

// S10/m + S01/n, of DeLong's equation (5).
double covariance(const Sample& sample, const Reference& a, const Reference& b) {
  double positives = 0;
  double negatives = 0;
  for (std::size_t i = 0; i < a.components.size(); ++i) {
    const double product = (a.components[i] - a.value) * (b.components[i] - b.value);
    (sample.positive[i] != 0 ? positives : negatives) += product;
  }
  const double m = a.positives;
  const double n = a.negatives;
  return positives / (m - 1) / m + negatives / (n - 1) / n;
}

TEST(Auroc, EqualsThePairByPairReferenceAlsoWithTies) {
  std::mt19937 random(1);
  for (const std::size_t count : {4U, 7U, 40U, 333U})
    for (const int levels : {0, 1, 5, 100000})
      for (const double prevalence : {0.05, 0.5, 0.9}) {
        const Sample sample = random_sample(random, count, prevalence, levels);
        const Reference wanted = reference(sample);
        const auto found = auroc(sample.scores, sample.positive);
        ASSERT_TRUE(found) << found.error().message();
        EXPECT_NEAR(found->value, wanted.value, 1e-13);
        EXPECT_NEAR(found->variance, covariance(sample, wanted, wanted), 1e-13);
        EXPECT_EQ(static_cast<double>(found->positives), wanted.positives);
        EXPECT_EQ(static_cast<double>(found->negatives), wanted.negatives);
      }
}

TEST(Auroc, InfluencesGiveTheCovarianceOfTwoScores) {
  std::mt19937 random(2);
  const Sample a = random_sample(random, 200, 0.3, 20);
  Sample b = a;
  for (double& score : b.scores) score += std::normal_distribution<>()(random);
  const Reference first = reference(a);
  const Reference second = reference(b);
  const auto difference = compare_auroc(a.scores, b.scores, a.positive);
  ASSERT_TRUE(difference);
  EXPECT_NEAR(difference->value, first.value - second.value, 1e-13);
  EXPECT_NEAR(difference->variance,
              covariance(a, first, first) + covariance(a, second, second) - 2 * covariance(a, first, second), 1e-13);
  const auto same = compare_auroc(a.scores, a.scores, a.positive);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->p_value(), 1);
}

TEST(Auroc, IntervalsCoverTheTruth) {
  std::mt19937 random(3);
  // Of normal scores one deviation apart: Phi(1 / sqrt 2).
  const double truth = 0.5 * std::erfc(-0.5);
  constexpr int kRounds = 2000;
  int covered = 0;
  for (int round = 0; round < kRounds; ++round) {
    Sample sample;
    for (int i = 0; i < 150; ++i) {
      sample.positive.push_back(i % 3 == 0 ? 1 : 0);
      sample.scores.push_back(std::normal_distribution<>(sample.positive.back(), 1)(random));
    }
    const Interval interval = auroc(sample.scores, sample.positive).value().interval(0.9);
    covered += interval.low <= truth && truth <= interval.high ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(covered) / kRounds, 0.9, 0.03);  // four deviations and DeLong's own error
}

TEST(Auroc, PerfectScoresHaveNoVariance) {
  const auto found = auroc(std::vector<double>{1, 2, 3, 4}, std::vector<std::uint8_t>{0, 0, 1, 1});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->value, 1);
  EXPECT_EQ(found->variance, 0);
  EXPECT_EQ(found->interval().high, 1);
}

TEST(Auroc, RefusesWhatHasNone) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto message = [](const std::vector<double>& scores, const std::vector<std::uint8_t>& positive) {
    const auto found = auroc(scores, positive);
    EXPECT_FALSE(found);
    EXPECT_EQ(found.error().code(), Code::kInvalidArgument);
    return found.error().message();
  };
  EXPECT_THAT(message({1, 2, kNan, 4}, {0, 0, 1, 1}), HasSubstr("score 2 of 4 is NaN"));
  EXPECT_THAT(message({1, 2, 3, 4}, {0, 0, 0, 0}), HasSubstr("0 positive and 4 negative"));
  EXPECT_THAT(message({1, 2, 3, 4}, {1, 1, 1, 0}), HasSubstr("3 positive and 1 negative"));
  EXPECT_THAT(message({1, 2, 3}, {0, 0, 1, 1}), HasSubstr("3 scores and 4 labels"));
  EXPECT_THAT(message({}, {}), HasSubstr("0 positive and 0 negative"));
  std::vector<double> influence(3);
  EXPECT_FALSE(auroc(std::vector<double>{1, 2, 3, 4}, std::vector<std::uint8_t>{0, 0, 1, 1}, influence));
}

TEST(LabelAurocs, MeanHasTheLabelsCovariances) {
  std::mt19937 random(4);
  constexpr std::size_t kImages = 300;
  const Sample a = random_sample(random, kImages, 0.4, 30);
  // The second label is the first one once more, so the mean has its variance, not half of it.
  std::vector<double> scores;
  std::vector<float> targets;
  for (std::size_t i = 0; i < kImages; ++i)
    for (const int label : {0, 1, 2}) {
      scores.push_back(a.scores[i]);
      targets.push_back(label == 2 ? 0 : a.positive[i]);  // the third has no positives
    }
  const auto found = auroc_of_labels(scores, targets, 3);
  ASSERT_TRUE(found) << found.error().message();
  const Auroc alone = auroc(a.scores, a.positive).value();
  EXPECT_NEAR(found->mean, alone.value, 1e-14);
  EXPECT_NEAR(found->variance, alone.variance, 1e-14);
  EXPECT_EQ(found->counted, 2U);
  EXPECT_NEAR(found->labels[1]->value, alone.value, 1e-14);
  ASSERT_FALSE(found->labels[2]);
  EXPECT_THAT(found->labels[2].error().message(), HasSubstr("0 positive and 300 negative"));
}

TEST(LabelAurocs, NamesImageAndLabelOfANan) {
  std::vector<double> scores(8);
  scores[5] = std::numeric_limits<double>::quiet_NaN();
  const auto found = auroc_of_labels(scores, std::vector<float>(8), 2);
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message(), HasSubstr("image 2 for label 1 is NaN"));
  EXPECT_FALSE(auroc_of_labels(scores, std::vector<float>(6), 2));
  EXPECT_FALSE(auroc_of_labels({}, {}, 0));
  const auto none = auroc_of_labels(std::vector<double>(8), std::vector<float>(8), 2);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message(), HasSubstr("none of 2 labels"));
}

TEST(NormalQuantile, KnownValues) {
  EXPECT_NEAR(normal_quantile(0.975), 1.959963984540054, 1e-12);
  EXPECT_NEAR(normal_quantile(0.5), 0, 1e-12);
  EXPECT_NEAR(normal_quantile(1e-9), -5.997807015007687, 1e-9);
}

}  // namespace
}  // namespace xoe::stats

#include "measure/cli/cost_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <random>

namespace xoe::bench {
namespace {

constexpr std::size_t kTerms = 3;
using Terms = std::array<double, kTerms>;

Terms cost_terms(Fabric fabric, const CostPoint& point) {
  const double n = point.ranks;
  const double shared = fabric == Fabric::kMemory ? n - 1 : 2 * (n - 1) / n;
  return {point.work, point.bytes * shared, point.rounds * 2 * std::log2(n)};
}

// The normal equations of those terms that `used` has a bit for, by Gauss-Jordan elimination; nullopt: they are not
// independent.
std::optional<Terms> solve(const std::array<Terms, kTerms>& squares, const Terms& products, unsigned used) {
  std::array<std::array<double, kTerms + 1>, kTerms> rows = {};
  for (std::size_t i = 0; i < kTerms; ++i) {
    const bool in = (used >> i & 1) != 0;
    for (std::size_t j = 0; j < kTerms; ++j) rows[i][j] = in && (used >> j & 1) != 0 ? squares[i][j] : i == j ? 1 : 0;
    rows[i][kTerms] = in ? products[i] : 0;
  }
  for (std::size_t column = 0; column < kTerms; ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column + 1; row < kTerms; ++row)
      if (std::abs(rows[row][column]) > std::abs(rows[pivot][column])) pivot = row;
    if (std::abs(rows[pivot][column]) < 1e-12) return std::nullopt;
    std::swap(rows[pivot], rows[column]);
    for (std::size_t row = 0; row < kTerms; ++row) {
      if (row == column) continue;
      const double factor = rows[row][column] / rows[column][column];
      for (std::size_t j = column; j <= kTerms; ++j) rows[row][j] -= factor * rows[column][j];
    }
  }
  Terms solution;
  for (std::size_t i = 0; i < kTerms; ++i) solution[i] = rows[i][kTerms] / rows[i][i];
  return solution;
}

}  // namespace

double predict_seconds(const CostModel& model, Fabric fabric, const CostPoint& point) {
  const Terms terms = cost_terms(fabric, point);
  return model.compute * terms[0] + model.seconds_per_byte * terms[1] + model.latency * terms[2];
}

CostModel fit_cost(std::span<const CostPoint> points, Fabric fabric) {
  // Terms differ by many orders: each is scaled by its largest value.
  Terms scale = {};
  for (const CostPoint& point : points)
    for (std::size_t i = 0; i < kTerms; ++i) scale[i] = std::max(scale[i], cost_terms(fabric, point)[i]);
  std::array<Terms, kTerms> squares = {};
  Terms products = {};
  double constant = 0;
  for (const CostPoint& point : points) {
    const Terms terms = cost_terms(fabric, point);
    for (const double seconds : point.seconds) {
      for (std::size_t i = 0; i < kTerms; ++i) {
        if (scale[i] == 0) continue;
        for (std::size_t j = 0; j < kTerms; ++j)
          if (scale[j] > 0) squares[i][j] += terms[i] / scale[i] * terms[j] / scale[j] / (seconds * seconds);
        products[i] += terms[i] / scale[i] / seconds;
      }
      constant += 1;
    }
  }
  // All sets of terms, since there are only a few: the best one whose constants are not negative.
  Terms best = {};
  double least = constant;
  for (unsigned used = 1; used < 1U << kTerms; ++used) {
    const auto solution = solve(squares, products, used);
    if (!solution || std::ranges::any_of(*solution, [](double one) { return one < 0; })) continue;
    double error = constant;
    for (std::size_t i = 0; i < kTerms; ++i) {
      error -= 2 * (*solution)[i] * products[i];
      for (std::size_t j = 0; j < kTerms; ++j) error += (*solution)[i] * squares[i][j] * (*solution)[j];
    }
    if (error < least - 1e-12) {
      least = error;
      best = *solution;
    }
  }
  for (std::size_t i = 0; i < kTerms; ++i) best[i] = scale[i] > 0 ? best[i] / scale[i] : 0;
  return {.compute = best[0], .seconds_per_byte = best[1], .latency = best[2]};
}

std::vector<Prediction> predict(std::span<const CostPoint> measured, std::span<const CostPoint> unmeasured,
                                Fabric fabric, std::uint64_t seed, int rounds) {
  const CostModel model = fit_cost(measured, fabric);
  std::vector<Prediction> predictions;
  for (const CostPoint& point : unmeasured)
    predictions.push_back({.seconds = predict_seconds(model, fabric, point), .interval = {}});
  std::vector<double> errors;  // relative
  for (const CostPoint& point : measured)
    errors.push_back(spread_of(point.seconds).mean / predict_seconds(model, fabric, point) - 1);
  std::mt19937_64 random(seed);
  std::vector<std::vector<double>> samples(unmeasured.size());
  std::vector<CostPoint> again(measured.begin(), measured.end());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < measured.size(); ++i)
      for (double& seconds : again[i].seconds) seconds = measured[i].seconds[random() % measured[i].seconds.size()];
    const CostModel other = fit_cost(again, fabric);
    for (std::size_t i = 0; i < unmeasured.size(); ++i)
      samples[i].push_back(predict_seconds(other, fabric, unmeasured[i]) * (1 + errors[random() % errors.size()]));
  }
  for (std::size_t i = 0; i < unmeasured.size(); ++i) predictions[i].interval = middle_of(samples[i]);
  return predictions;
}

}  // namespace xoe::bench

#include "measure/cli/stats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>

namespace xoe::bench {
namespace {

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double resampled_mean(std::span<const double> values, std::mt19937_64& random) {
  double sum = 0;
  // Not a distribution of the standard library, whose numbers differ between implementations.
  for (std::size_t i = 0; i < values.size(); ++i) sum += values[random() % values.size()];
  return sum / static_cast<double>(values.size());
}

}  // namespace

double quantile_of(std::span<double> values, double quantile) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(std::llround(quantile * static_cast<double>(values.size() - 1)))];
}

Interval middle_of(std::span<double> values) {
  return {.low = quantile_of(values, 0.025), .high = quantile_of(values, 0.975)};
}

double student_t(std::size_t degrees) {
  constexpr std::array kTable = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                 2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                                 2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  if (degrees == 0) return INFINITY;
  if (degrees <= kTable.size()) return kTable[degrees - 1];
  constexpr double kNormal = 1.959964;
  return kNormal + (kNormal * kNormal * kNormal + kNormal) / (4 * static_cast<double>(degrees));  // Cornish-Fisher
}

Spread spread_of(std::span<const double> values) {
  const auto [lowest, highest] = std::ranges::minmax(values);
  Spread spread = {
      .count = values.size(), .mean = mean_of(values), .lowest = lowest, .highest = highest, .confidence = {}};
  double half = 0;
  if (values.size() > 1) {
    double squares = 0;
    for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
    const auto degrees = static_cast<double>(values.size() - 1);
    spread.deviation = std::sqrt(squares / degrees);
    half = student_t(values.size() - 1) * spread.deviation / std::sqrt(degrees + 1);
  }
  spread.confidence = {.low = spread.mean - half, .high = spread.mean + half};
  return spread;
}

Interval bootstrap_change(std::span<const double> a, std::span<const double> b, std::uint64_t seed, int rounds) {
  std::mt19937_64 random(seed);
  std::vector<double> changes(static_cast<std::size_t>(rounds));
  for (double& change : changes) {
    const double before = resampled_mean(a, random);
    change = resampled_mean(b, random) / before - 1;
  }
  return middle_of(changes);
}

}  // namespace xoe::bench

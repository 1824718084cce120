// Statistics of repeated measurements.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "xoe/stats.h"

namespace xoe::bench {

using stats::Interval;

struct Spread {
  std::size_t count = 0;
  double mean = 0;
  double deviation = 0;  // of the sample (n - 1); 0 for one value
  double lowest = 0;
  double highest = 0;
  // Holds the true mean with a probability of 95 %, by Student's t, if the values are independent and about normally
  // distributed. One value tells nothing: low == high == mean.
  Interval confidence;
};

// REQUIRES: at least one value.
Spread spread_of(std::span<const double> values);

// The value nearest to that place of the sorted values: 0.5 for the median. Sorts them. REQUIRES: at least one.
double quantile_of(std::span<double> values, double quantile);
// The middle 95 % of them.
Interval middle_of(std::span<double> values);

// The 97.5 % quantile of Student's t with that many degrees of freedom, to 0.1 %.
double student_t(std::size_t degrees);

// Percentile bootstrap of mean(b) / mean(a) - 1, 95 %: both samples are drawn again with replacement, `rounds` times.
// The same numbers for the same seed. REQUIRES: at least one positive value in each.
Interval bootstrap_change(std::span<const double> a, std::span<const double> b, std::uint64_t seed, int rounds = 10000);

}  // namespace xoe::bench

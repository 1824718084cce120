// Compares measurements with the first of their quantity.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "measure/cli/measurement.h"

namespace xoe::bench {

// Below so many runs of either result, a difference is not called one: the bootstrap's interval is too narrow then.
inline constexpr std::size_t kFewestRuns = 5;

enum class Verdict : std::uint8_t { kBaseline, kBetter, kWorse, kNoise, kTooFewRuns };
// "faster" and "slower": every quantity is a speed or a time.
std::string_view verdict_text(Verdict verdict) noexcept;

struct ComparedResult {
  Spread spread;      // over runs
  double change = 0;  // of the mean: 0.05 is 5 % more than the first
  Interval interval;  // of it, 95 %, by bootstrap over runs
  Verdict verdict = Verdict::kBaseline;
};

// Results of one quantity.
struct ComparedQuantity {
  std::vector<Measurement> results;
  std::vector<ComparedResult> compared;  // by result
};

struct Comparison {
  std::vector<ComparedQuantity> quantities;  // in the order in which they were first met
  std::vector<std::string> notes;            // in what else the results differ
  std::string title;                         // of what was measured; empty: not told
};

// The results of all files, by path. Of those with one name and quantity in several files the name tells the file, too.
std::vector<Measurement> results_of(std::vector<std::pair<std::string, MeasurementFile>> files);

// REQUIRES: at least one result. The same for the same seed.
Comparison compare_results(std::vector<Measurement> results, std::uint64_t seed);

std::string comparison_text(const Comparison& comparison);
nlohmann::ordered_json to_json(const Comparison& comparison);
// For a browser, in one file.
std::string comparison_page(const Comparison& comparison);
// A picture: the means as bars.
std::string comparison_svg(const Comparison& comparison);

}  // namespace xoe::bench

// Compares results of `xoe bench train` with the first of them.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tools/bench/train_result.h"

namespace xoe::bench {

// Below so many runs of either result, a difference is not called one: the bootstrap's interval is too narrow then.
inline constexpr std::size_t kFewestRuns = 5;

enum class Verdict : std::uint8_t { kBaseline, kFaster, kSlower, kNoise, kTooFewRuns };
std::string_view verdict_text(Verdict verdict) noexcept;

struct NamedResult {
  std::string name;  // of the file
  TrainResult result;
};

struct ComparedResult {
  Spread speed;       // images/s over runs
  double change = 0;  // of the mean: 0.05 is 5 % faster than the first
  Interval interval;  // of it, 95 %, by bootstrap over runs
  Verdict verdict = Verdict::kBaseline;
};

struct Comparison {
  std::vector<NamedResult> results;
  std::vector<ComparedResult> compared;  // by result
  std::vector<std::string> notes;        // in what else the results differ than in speed
};

// REQUIRES: at least one result. The same for the same seed.
Comparison compare_results(std::vector<NamedResult> results, std::uint64_t seed);

std::string comparison_text(const Comparison& comparison);
nlohmann::ordered_json to_json(const Comparison& comparison);
// For a browser, in one file.
std::string comparison_page(const Comparison& comparison);

}  // namespace xoe::bench

// Repeated values of one quantity, by any program: what `xoe bench compare` compares.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "measure/cli/train_result.h"
#include "measure/pages/facts.h"

namespace xoe::bench {

inline constexpr std::string_view kSpeedQuantity = "images/s";

struct Measurement {
  std::string name;    // of the result
  std::string series;  // of which it is a point at another number of ranks
  std::string quantity = std::string(kSpeedQuantity);
  bool less_is_better = false;
  bool approximate = false;  // as its source says
  std::vector<double> runs;  // positive
  int ranks = 0;             // 0: not told
  double emulated_images_per_s = 0;
  std::vector<std::pair<std::string, std::string>> workload = {};  // what two results should have in common
  std::optional<StepParts> parts = {};
  std::string environment = {};  // JSON
};

// Measurements of one source.
struct MeasurementFile {
  std::string title;   // empty of a result of `xoe bench`
  std::string source;  // where else it stands; empty: nowhere
  std::string date;
  std::vector<Measurement> measurements;  // at least one
};

Measurement measurement_of(const std::string& name, const TrainResult& result);

// For a page: each environment once, headed by the names of the results that it is of.
std::vector<std::pair<std::string, pages::Facts>> environments_of(const std::vector<Measurement>& measurements);

// A result of `xoe bench train` or of `xoe bench scale` (a measurement for each size), or a file of measurements
// (docs/formats/measurements.md). `invalid_argument` with the file's name: it is none of them, or is broken.
Result<MeasurementFile> read_measurements(const std::string& path);
// The same of a text that `path` has.
Result<MeasurementFile> parse_measurements(std::string_view text, const std::string& path);

}  // namespace xoe::bench

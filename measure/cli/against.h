// Measurements beside those of others, whose machines and programs were different: how each scales, and how far apart
// they are.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "measure/cli/measurement.h"

namespace xoe::bench {

struct AgainstRow {
  Measurement measurement;
  double speed = 0;  // images/s, mean of the runs
  double per_rank = 0;
  double efficiency = 0;  // per rank, over the same of the series' smallest size; 0: the series has one size
};

// Two of the same number of ranks.
struct AgainstPair {
  std::string ours, theirs;  // names
  double ratio = 0;          // of the speeds
};

struct Against {
  std::vector<AgainstRow> ours, theirs;
  std::vector<AgainstPair> pairs;
  std::vector<std::string> notes;
};

// Speeds of known numbers of ranks; others are left out, with a note. `invalid_argument`: none of ours is left.
Result<Against> stand_against(const std::vector<Measurement>& ours, const std::vector<MeasurementFile>& theirs);

std::string against_text(const Against& against);
nlohmann::ordered_json to_json(const Against& against);
std::string against_page(const Against& against);

}  // namespace xoe::bench

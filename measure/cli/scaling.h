// Speeds at several numbers of ranks: the table, a fitted cost model, and what it predicts of larger sizes.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "measure/cli/cost_fit.h"
#include "measure/cli/train_result.h"

namespace xoe::bench {

enum class ScalingKind : std::uint8_t {
  kWeak,    // each rank has the same batch at every size
  kStrong,  // all ranks together have
};
std::string_view scaling_name(ScalingKind kind) noexcept;

struct ScalePoint {
  int ranks = 1;
  int pretended_hosts = 1;
  TrainResult result;
};

struct Scaling {
  ScalingKind kind = ScalingKind::kWeak;
  int cores = 1;                   // of a host
  std::vector<ScalePoint> points;  // by ranks, the smallest first
};

struct ScaleRow {
  int ranks = 1;
  int hosts = 1;          // pretended ones, or real ones
  Spread speed;           // images/s
  double speed_up = 1;    // over the smallest size
  double efficiency = 1;  // speed-up over the ratio of ranks
  double exposed_ms = 0;  // communication
};

struct PredictedRow {
  int ranks = 1;
  double images_per_s = 0;
  Interval interval;
  double efficiency = 1;
};

struct ScalingReport {
  std::vector<ScaleRow> rows;
  CostModel model;
  Fabric fabric = Fabric::kMemory;
  double worst_error = 0;               // of the model at a measured size, relative
  std::vector<PredictedRow> predicted;  // empty: fewer than three sizes, too few for three constants
  std::vector<std::string> notes;
};

// REQUIRES: at least one point.
ScalingReport report_scaling(const Scaling& scaling, std::uint64_t seed);

std::string scaling_text(const Scaling& scaling, const ScalingReport& report);
nlohmann::ordered_json to_json(const Scaling& scaling, const ScalingReport& report);
std::string scaling_page(const Scaling& scaling, const ScalingReport& report);

}  // namespace xoe::bench

// Steps of more ranks than there are: a simulation from measured constants.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "measure/cli/cost_fit.h"
#include "measure/cli/train_result.h"

namespace xoe::bench {

inline constexpr int kMostRanks = 1 << 20;

// Measured times of all_reduce by size: points without work, each a reduction of its own.
struct MeasuredFabric {
  std::vector<CostPoint> points;
  Fabric fabric = Fabric::kLinks;
};

// Reads the JSON of `xoe bench collectives` or nccl-tests. `invalid_argument` with the file's name: it is none, or has
// fewer than two sizes of all_reduce among two ranks or more.
Result<MeasuredFabric> read_fabric(const std::string& path, Fabric fabric);
// Two points that have exactly these constants.
MeasuredFabric fabric_of(double latency, double bytes_per_second);

// What one rank computes in a step, and what the ranks reduce.
struct StepProfile {
  double forward = 0;  // seconds
  double backward = 0;
  double rest = 0;           // input, optimizer, and all else that follows the reductions
  double noise = 0;          // relative deviation of a rank's computing from step to step
  double bytes = 0;          // of gradients
  int buckets = 1;           // each reduced once the backward pass has come to its end
  double images = 0;         // of a rank
  std::vector<double> runs;  // factors of the speed of measured runs to their mean
};
StepProfile profile_of(const TrainResult& result);

struct SimulationOptions {
  int ranks_per_host = 1;
  int draws = 100;  // of the constants
  int steps = 5;    // of each draw
  std::uint64_t seed = 1;
};

struct SimulatedSize {
  int ranks = 1;
  int hosts = 1;
  double images_per_s = 0;  // median of the draws
  Interval interval;        // 95 % of the draws
  double efficiency = 1;    // against one rank
  double exposed_ms = 0;    // communication and waiting for the slowest rank
};

// A step of `ranks`: every rank computes for a time of its own; bucket k is reduced when the slowest rank has it and
// bucket k - 1 is done, first within the hosts through memory, then between hosts through links, while backward goes
// on. The step ends when all is reduced and updated. Each draw takes a measured run's speed, and constants that are
// fitted to measured times drawn again. The same for the same seed. local: without points, reductions within a host are
// free.
SimulatedSize simulate(const StepProfile& profile, const MeasuredFabric& network, const MeasuredFabric& local,
                       int ranks, const SimulationOptions& options);

}  // namespace xoe::bench

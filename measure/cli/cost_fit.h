// A cost model of a training step, fitted to measured steps: computing, bandwidth and latency.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "measure/cli/stats.h"

namespace xoe::bench {

// What ranks share decides how communication grows with their number.
enum class Fabric : std::uint8_t {
  kMemory,  // one host: all ranks reduce through the same memory, so bytes grow with the ranks
  kLinks,   // a link for each rank: a ring sends 2 (n - 1) / n of the bytes over each
};

// A step of n ranks takes compute x work + seconds_per_byte x bytes(n) + latency x rounds(n), with
//   bytes:  kMemory: gradient bytes x (n - 1);  kLinks: gradient bytes x 2 (n - 1) / n
//   rounds: reductions of a step x 2 log2 n
// What overlaps is not told apart: the constants are those of exposed time.
struct CostModel {
  double compute = 0;           // seconds at work 1
  double seconds_per_byte = 0;  // 1 / bandwidth
  double latency = 0;           // seconds
};

struct CostPoint {
  int ranks = 1;
  double work = 1;              // of computing, relative to the smallest size: images of a rank, cores that it shares
  double bytes = 0;             // of gradients in a step
  double rounds = 1;            // reductions in a step
  std::vector<double> seconds;  // of a mean step, by run; empty: to predict
};

double predict_seconds(const CostModel& model, Fabric fabric, const CostPoint& point);

// Least squares of relative errors over all runs, with no constant below 0.
CostModel fit_cost(std::span<const CostPoint> points, Fabric fabric);

struct Prediction {
  double seconds = 0;
  Interval interval;  // 95 %, by bootstrap over runs and over the model's errors at measured sizes
};

// By point of `unmeasured`. The same for the same seed.
std::vector<Prediction> predict(std::span<const CostPoint> measured, std::span<const CostPoint> unmeasured,
                                Fabric fabric, std::uint64_t seed, int rounds = 500);

}  // namespace xoe::bench

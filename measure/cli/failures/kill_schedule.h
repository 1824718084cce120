// When ranks are killed: the same times and ranks for every way of training on.
#pragma once

#include <cstdint>
#include <random>

namespace xoe::bench {

struct Kill {
  double seconds = 0;  // after the first step
  int rank = 0;
};

// Failures as a Poisson process: the times between them are exponential. The numbers are a function of the seed alone.
class KillSchedule {
 public:
  // mean_seconds > 0, ranks >= 1
  KillSchedule(double mean_seconds, int ranks, std::uint64_t seed);
  Kill next();

 private:
  double mean_seconds_;
  int ranks_;
  double at_ = 0;
  std::mt19937_64 random_;
};

}  // namespace xoe::bench

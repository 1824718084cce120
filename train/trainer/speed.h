// The speed of training, and the shares of its time.
#pragma once

#include <cstddef>
#include <vector>

namespace xoe::train {

// As tf_cnn_benchmarks defines them, over images/s of single steps.
struct SpeedStats {
  double mean = 0;         // images over time
  double uncertainty = 0;  // standard error of the mean: deviation / sqrt(steps)
  double jitter = 0;       // 1.4826 x median absolute deviation, of the newest SpeedMeter::kNewest steps
};

// Takes no more memory, and stats() no more time, after kNewest steps: mean and uncertainty are of all steps.
class SpeedMeter {
 public:
  static constexpr std::size_t kNewest = 16384;
  void add(double images, double seconds);
  SpeedStats stats() const;

 private:
  double images_ = 0;
  double seconds_ = 0;
  std::size_t steps_ = 0;
  // Of the speeds of steps, by Welford's method.
  double mean_ = 0;
  double squares_ = 0;               // sum of squared deviations from the mean
  std::vector<double> newest_ = {};  // after kNewest steps, each takes the place of the oldest
};

// Seconds of one or more steps, by activity.
struct StepTimes {
  double data = 0;       // waiting for input
  double compute = 0;    // forward and backward
  double forward = 0;    // the part of it that is the forward pass
  double peers = 0;      // waiting for other ranks and reducing, with no other work to do
  double optimizer = 0;  // updating parameters

  double total() const noexcept { return data + compute + peers + optimizer; }
  StepTimes& operator+=(const StepTimes& other) noexcept;
};

// Fractions of the total; all zero if the total is.
StepTimes shares(const StepTimes& times) noexcept;

}  // namespace xoe::train

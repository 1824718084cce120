#include "train/trainer/speed.h"

#include <algorithm>
#include <cmath>

namespace xoe::train {
namespace {

// Scales the median absolute deviation of normally distributed values to their standard deviation.
constexpr double kMadToDeviation = 1.4826;

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace

void SpeedMeter::add(double images, double seconds) {
  if (seconds <= 0) return;
  images_ += images;
  seconds_ += seconds;
  const double speed = images / seconds;
  if (newest_.size() < kNewest)
    newest_.push_back(speed);
  else
    newest_[steps_ % kNewest] = speed;
  ++steps_;
  const double deviation = speed - mean_;
  mean_ += deviation / static_cast<double>(steps_);
  squares_ += deviation * (speed - mean_);
}

SpeedStats SpeedMeter::stats() const {
  if (steps_ == 0) return {};
  std::vector<double> values = newest_;
  const double middle = median(values);
  for (double& value : values) value = std::abs(value - middle);
  return {.mean = images_ / seconds_,
          .uncertainty = std::sqrt(squares_) / static_cast<double>(steps_),
          .jitter = kMadToDeviation * median(values)};
}

StepTimes& StepTimes::operator+=(const StepTimes& other) noexcept {
  data += other.data;
  compute += other.compute;
  forward += other.forward;
  peers += other.peers;
  optimizer += other.optimizer;
  return *this;
}

StepTimes shares(const StepTimes& times) noexcept {
  const double total = times.total();
  if (total <= 0) return {};
  return {.data = times.data / total,
          .compute = times.compute / total,
          .forward = times.forward / total,
          .peers = times.peers / total,
          .optimizer = times.optimizer / total};
}

}  // namespace xoe::train

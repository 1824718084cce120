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
  speeds_.push_back(images / seconds);
}

SpeedStats SpeedMeter::stats() const {
  if (speeds_.empty()) return {};
  const auto count = static_cast<double>(speeds_.size());
  double sum = 0;
  for (const double speed : speeds_) sum += speed;
  const double mean = sum / count;
  double squares = 0;
  for (const double speed : speeds_) squares += (speed - mean) * (speed - mean);

  std::vector<double> values = speeds_;
  const double middle = median(values);
  for (double& value : values) value = std::abs(value - middle);
  return {.mean = images_ / seconds_,
          .uncertainty = std::sqrt(squares / count) / std::sqrt(count),
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

#include "train/trainer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace xoe::train {

double learning_rate(const Schedule& schedule, std::int64_t step) noexcept {
  if (step < schedule.warmup_steps) {
    return schedule.peak * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  }
  const auto length = static_cast<double>(std::max<std::int64_t>(1, schedule.total_steps - schedule.warmup_steps));
  const double passed = std::min(1.0, static_cast<double>(step - schedule.warmup_steps) / length);
  return schedule.peak * 0.5 * (1.0 + std::cos(std::numbers::pi * passed));
}

double scaled_rate(double rate, int reference_batch, std::int64_t images_per_step) noexcept {
  return reference_batch == 0 ? rate : rate * static_cast<double>(images_per_step) / reference_batch;
}

}  // namespace xoe::train

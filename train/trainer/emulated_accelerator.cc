#include "train/trainer/emulated_accelerator.h"

#include <ATen/ops/full_like.h>

#include <algorithm>
#include <thread>

namespace xoe::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kForwardShare = 1.0 / 3;
constexpr double kGradient = 1e-3;

}  // namespace

EmulatedAccelerator::EmulatedAccelerator(const models::ImageModel& model, double images_per_s)
    : images_per_s_(images_per_s), parameters_(model.parameters()) {
  std::reverse(parameters_.begin(), parameters_.end());
}

void EmulatedAccelerator::forward(std::int64_t images) { std::this_thread::sleep_for(time_of(images, kForwardShare)); }

void EmulatedAccelerator::backward(std::int64_t images) {
  const auto start = Clock::now();
  const auto count = static_cast<std::int64_t>(parameters_.size());
  const auto whole = time_of(images, 1 - kForwardShare);
  for (std::int64_t i = 0; i < count; ++i) {
    std::this_thread::sleep_until(start + whole * (i + 1) / count);
    const at::Tensor& parameter = parameters_[static_cast<std::size_t>(i)];
    // Runs the hooks of this parameter, as a whole backward pass would.
    parameter.backward(at::full_like(parameter, kGradient));
  }
}

std::chrono::nanoseconds EmulatedAccelerator::time_of(std::int64_t images, double share) const {
  const std::chrono::duration<double> seconds(static_cast<double>(images) / images_per_s_ * share);
  return std::chrono::duration_cast<std::chrono::nanoseconds>(seconds);
}

}  // namespace xoe::train

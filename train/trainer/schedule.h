// The learning rate of each step.
#pragma once

#include <cstdint>

namespace xoe::train {

struct Schedule {
  double peak = 0.1;
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 1;
};

// Rises linearly to `peak` over the warm-up, then falls to 0 along a half cosine (I. Loshchilov and F. Hutter, SGDR,
// 2016). A pure function of the step, counted from 0, so that a resumed run continues exactly.
double learning_rate(const Schedule& schedule, std::int64_t step) noexcept;

// `rate` is meant for `reference_batch` images in a step; linear scaling (P. Goyal et al., 2017). 0: no scaling.
double scaled_rate(double rate, int reference_batch, std::int64_t images_per_step) noexcept;

}  // namespace xoe::train

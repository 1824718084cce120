// The learning rate of each step.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "train/trainer/options.h"
#include "xoe/status.h"

namespace xoe::train {

// A rate that holds from some point in time on.
template <class Time>
struct RatePiece {
  Time from = 0;
  double rate = 0;
  bool operator==(const RatePiece&) const = default;
};

// "0.1;30;0.01;60;0.001": rates, and between them the epochs in which they change, which rise. `invalid_argument`:
// another form, or numbers out of order.
Result<std::vector<RatePiece<double>>> parse_rate_pieces(std::string_view text);

struct Schedule {
  double peak = 0.1;
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 1;
  std::vector<RatePiece<std::int64_t>> pieces = {};  // by step, in order; not empty: in place of the cosine
};

// Rises linearly to `peak` over the warm-up, then falls to 0 along a half cosine (I. Loshchilov and F. Hutter, SGDR,
// 2016), or follows the pieces, of which the first is the rate that the warm-up rises to. A pure function of the step,
// counted from 0, so that a resumed run continues exactly.
double learning_rate(const Schedule& schedule, std::int64_t step) noexcept;

// `rate` is meant for `reference_batch` images in a step; linear scaling (P. Goyal et al., 2017). 0: no scaling.
double scaled_rate(double rate, int reference_batch, std::int64_t images_per_step) noexcept;

// The schedule of a run. images_per_step: of all ranks, which the rate is scaled with. steps_per_epoch: of the data; 0:
// it has no epochs, so that those of options.synthetic_epoch count, if there are any. REQUIRES: complete_options() has
// read the options.
Schedule make_schedule(const TrainOptions& options, double steps_per_epoch, std::int64_t total_steps,
                       std::int64_t images_per_step);

}  // namespace xoe::train

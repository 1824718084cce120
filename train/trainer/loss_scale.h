// The factor of the loss that keeps float16 gradients from vanishing.
#pragma once

#include <cstdint>

#include "xoe/status.h"

namespace xoe::train {

// Dynamic loss scaling, with the numbers of PyTorch's GradScaler (P. Micikevicius et al., Mixed Precision Training,
// 2018): it begins with 65536, halves after a step whose gradients are not finite, which is left out, and doubles after
// 2000 good steps in a row. Powers of two, so that scaling rounds nothing.
class LossScale {
 public:
  LossScale() = default;
  LossScale(double scale, std::int64_t good_steps) : scale_(scale), good_steps_(good_steps) {}

  double scale() const noexcept { return scale_; }
  std::int64_t good_steps() const noexcept { return good_steps_; }  // since the last change

  // After each step. `invalid_argument` once the scale is so small that it cannot be the cause.
  Status update(bool finite);

  bool operator==(const LossScale&) const = default;

 private:
  double scale_ = 65536;
  std::int64_t good_steps_ = 0;
};

}  // namespace xoe::train

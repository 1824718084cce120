#include "train/trainer/loss_scale.h"

#include "core/base/error.h"

namespace xoe::train {
namespace {

constexpr std::int64_t kGrowthInterval = 2000;  // steps
constexpr double kSmallest = 1.0 / 65536;

}  // namespace

Status LossScale::update(bool finite) {
  if (!finite) {
    good_steps_ = 0;
    scale_ /= 2;
    if (scale_ >= kSmallest) return {};
    return failure(Code::kInvalidArgument,
                   "gradients are not finite at any loss scale; try a smaller --lr, --clip-norm or --precision bf16");
  }
  if (++good_steps_ == kGrowthInterval) {
    good_steps_ = 0;
    scale_ *= 2;
  }
  return {};
}

}  // namespace xoe::train

#include "train/trainer/model_update.h"

#include <cmath>
#include <limits>

#include "core/base/error.h"

namespace xoe::train {

Result<bool> ModelUpdate::finite_gradients() {
  XOE_ASSIGN(const double norm, optimizer_.clip_grad_norm(std::numeric_limits<double>::infinity()));
  return std::isfinite(norm);
}

Result<std::string> ModelUpdate::step(bool finite_everywhere, std::int64_t step) {
  if (scales()) {
    const double scale = loss_scale_.scale();
    XOE_TRY(loss_scale_.update(finite_everywhere));
    if (!finite_everywhere)
      return fmt::format("step {} is left out: gradients are not finite at a loss scale of {}; it is {} now", step,
                         scale, loss_scale_.scale());
    XOE_TRY(optimizer_.scale_gradients(1 / scale));
  }
  if (options_.clip_value > 0) XOE_TRY(optimizer_.clip_grad_value(options_.clip_value));
  if (options_.clip_norm > 0) XOE_TRY(optimizer_.clip_grad_norm(options_.clip_norm));
  XOE_TRY(optimizer_.step());
  if (average_) average_->update(step);
  return std::string();
}

}  // namespace xoe::train

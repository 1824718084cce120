// The end of a step: from the gradients of all ranks to weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "train/networks/models.h"
#include "train/trainer/loss_scale.h"
#include "train/trainer/options.h"
#include "train/trainer/weight_average.h"
#include "xoe/torch/optimizer.h"

namespace xoe::train {

class ModelUpdate {
 public:
  // `options` and the average's model outlive it. average: with --ema.
  ModelUpdate(const TrainOptions& options, std::optional<WeightAverage> average,
              xoe::torch::DistributedOptimizer optimizer)
      : options_(options), optimizer_(std::move(optimizer)), average_(std::move(average)) {}

  xoe::torch::DistributedOptimizer& optimizer() noexcept { return optimizer_; }
  int buckets() const noexcept { return optimizer_.bucket_count(); }
  WeightAverage* average() noexcept { return average_ ? &*average_ : nullptr; }  // null: without --ema
  std::optional<WeightAverage> take_average() { return std::exchange(average_, std::nullopt); }
  const LossScale& loss_scale() const noexcept { return loss_scale_; }
  void set_loss_scale(const LossScale& scale) noexcept { loss_scale_ = scale; }

  // Whether losses are scaled, and gradients looked at: for float16.
  bool scales() const noexcept { return options_.precision == Precision::kFp16; }
  at::Tensor scaled(const at::Tensor& loss) const { return scales() ? loss * loss_scale_.scale() : loss; }
  // Completes the reductions, and tells whether the gradients are finite. Collective.
  Result<bool> finite_gradients();
  // Changes the weights, or leaves the step out where gradients are not finite on some rank: the next step begins with
  // zero_grad(). step: its number, from 1. Returns a line about a step that was left out, else nothing. Collective;
  // `invalid_argument` on all ranks when no loss scale helps.
  Result<std::string> step(bool finite_everywhere, std::int64_t step);

 private:
  const TrainOptions& options_;
  xoe::torch::DistributedOptimizer optimizer_;
  std::optional<WeightAverage> average_;
  LossScale loss_scale_;
};

}  // namespace xoe::train

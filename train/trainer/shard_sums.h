// The gradients of a step's logical shards, and what they do to the model's buffers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "core/base/shard_range.h"
#include "core/engine/shards/shard_sum.h"
#include "train/networks/models.h"
#include "train/trainer/run_meter.h"
#include "xoe/engine.h"
#include "xoe/status.h"

namespace xoe::train {

// One step: begin(); begin_shard(), a forward and a backward pass, and take() for each shard of mine(), in order; then
// finish(). Nothing that it leaves depends on the ranks: gradients are the mean over shards, added along a fixed tree,
// and every shard begins with the buffers that the step began with, which move by the mean of the shards' changes.
class ShardSums {
 public:
  // For float32 parameters in host memory; `model` and `engine` outlive it. `unsupported`: others.
  static Result<std::unique_ptr<ShardSums>> create(models::ImageModel& model, Engine& engine, int shards);

  ShardRange mine() const noexcept { return sum_->mine(); }
  void begin();
  void begin_shard();
  // Takes the gradients away from the parameters.
  Status take(int shard);
  // Collective. Gives the parameters the gradients of all shards, which are good until the next take().
  Status finish();

 private:
  ShardSums(models::ImageModel& model, std::unique_ptr<engine::ShardSum> sum);

  std::unique_ptr<engine::ShardSum> sum_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> buffers_;  // of floating-point numbers
  std::vector<at::Tensor> others_;   // such as how many batches a batch norm has seen
  std::vector<at::Tensor> begun_;    // values of both when the step began
};

// The sums of each of this rank's shards, by shard; zeros for the others. For a sum over ranks, in which only zeros are
// added to a shard's own.
std::vector<double> in_places_of_shards(const std::vector<StepSums>& sums, ShardRange mine, int shards);
// Then the sum over all shards, along the tree.
StepSums sum_of_shards(const double* values, int shards);
inline constexpr std::size_t kSumsOfShard = 3;  // numbers

}  // namespace xoe::train

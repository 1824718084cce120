// The passes of a step: forward and, where it trains, backward through the network.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "train/trainer/batches.h"
#include "train/trainer/model_update.h"
#include "train/trainer/options.h"
#include "train/trainer/run_meter.h"
#include "train/trainer/setup.h"
#include "train/trainer/shard_sums.h"
#include "train/trainer/trace.h"

namespace xoe::train {

// The sums of a pass as tensors, which a GPU may still compute.
struct PassSums {
  at::Tensor loss, correct;
  double images = 0;
};

// For a step of logical shards.
struct ShardStep {
  ShardSums& sums;
  std::int64_t step = 0;  // that are finished
};

class Passes {
 public:
  // All outlive this.
  Passes(Setup& setup, const TrainOptions& options, ModelUpdate& update, StepTrace& trace,
         std::optional<ShardStep> shards)
      : setup_(setup), options_(options), update_(update), trace_(trace), shards_(shards) {}

  // One pass for each batch. Gradients add up; those of logical shards go to their sums. Throws PassFailed.
  std::vector<PassSums> run(const std::vector<Batch>& batches);
  // Waits for a GPU that still computes them.
  std::vector<StepSums> read(const std::vector<PassSums>& passes);

 private:
  bool trains() const noexcept { return options_.step_kind == StepKind::kTrain; }
  // The loss, for backward; its sums go to `passes`.
  at::Tensor forward(const Batch& batch, std::vector<PassSums>& passes);

  Setup& setup_;
  const TrainOptions& options_;
  ModelUpdate& update_;
  StepTrace& trace_;
  std::optional<ShardStep> shards_;
};

}  // namespace xoe::train

// Saves and restores everything that the next step depends on.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>

#include "train/networks/models.h"
#include "train/trainer/batches.h"
#include "train/trainer/checkpoint_file.h"
#include "train/trainer/loss_scale.h"
#include "train/trainer/options.h"
#include "train/trainer/weight_average.h"
#include "xoe/communicator.h"
#include "xoe/torch/optimizer.h"

namespace torch::optim {
class Optimizer;
}

namespace xoe::train {

// The progress of a run.
struct Progress {
  std::int64_t step = 0;         // finished ones
  std::int64_t total_steps = 0;  // that it was to have; 0: not known
  double epoch = -1;             // -1: not known
  std::int64_t shift = 0;        // of the plan
  std::string position;          // of this rank's data
  LossScale loss_scale = {};     // of float16
  // Images of all ranks in a pass when the training began; 0: not known.
  std::int64_t first_joint_batch = 0;
  std::int64_t ledger_run = 0;  // as StepLedger has it
};
// As text, and back, between ranks of one run.
std::string progress_text(const Progress& progress);
Progress progress_of(const std::string& text);

// Collective. The sections of a checkpoint, on rank 0; none on the others.
Result<Sections> gather_state(const TrainOptions& options, const DataInfo& data, const Progress& progress,
                              models::ImageModel& model, WeightAverage* average,
                              xoe::torch::DistributedOptimizer& optimizer, Communicator& comm);

// What this rank alone knows of all that, once others are lost: the same, with the buffers, the random generator and
// the position of this rank. REQUIRES: the optimizer is not sharded now. `ranks`: how many there were.
Result<Sections> own_state(const TrainOptions& options, const DataInfo& data, const Progress& progress,
                           models::ImageModel& model, WeightAverage* average,
                           const ::torch::optim::Optimizer& optimizer, int ranks);

// Collective. One file for all ranks: parameters, optimizer state, the averaged buffers, and of each rank its own
// buffers, random generator and data position; those of `average`, unless it is null. Written by rank 0; all ranks get
// its errors. Returns the path.
Result<std::string> save_checkpoint(const TrainOptions& options, const DataInfo& data, const Progress& progress,
                                    models::ImageModel& model, WeightAverage* average,
                                    xoe::torch::DistributedOptimizer& optimizer, Communicator& comm);

// Collective. The newest checkpoint of options.checkpoint_dir, read by rank 0, on all ranks; nullopt when there is
// none. `invalid_argument` when it was written by another kind of run, `data_loss` when it is damaged. `any_ranks`: the
// number of ranks need not be the same.
Result<std::optional<Sections>> load_checkpoint(const TrainOptions& options, const DataInfo& data, Communicator& comm,
                                                bool any_ranks);

// The state of an optimizer that is not sharded.
std::string optimizer_bytes(const ::torch::optim::Optimizer& optimizer);
void restore_optimizer(::torch::optim::Optimizer& optimizer, const std::string& bytes);

// Writes what own_state() gave as a checkpoint. Returns its path.
Result<std::string> keep_state(const TrainOptions& options, const Sections& sections);

// To be called before the DistributedOptimizer is created: restores the parameters and this rank's buffers. Here and
// below, a rank that the state is not of takes the part of one that it is of: ranks have come or left.
Status restore_model(const Sections& sections, const TrainOptions& options, const DataInfo& data, int rank,
                     models::ImageModel& model);
bool has_weight_average(const Sections& sections);
std::int64_t first_joint_batch_of(const Sections& sections);  // as Progress has it
// REQUIRES: has_weight_average(). Restores the average of this rank.
Status restore_average(const Sections& sections, const TrainOptions& options, const DataInfo& data, int rank,
                       WeightAverage& average);
// To be called after it was created: restores the optimizer state, on the model's `device`, and the random generator,
// but not options such as momentum and weight decay.
Result<Progress> restore_rest(const Sections& sections, int rank, c10::Device device,
                              xoe::torch::DistributedOptimizer& optimizer);

}  // namespace xoe::train

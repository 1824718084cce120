// The setup of a run before its first step.
#pragma once

#include <torch/optim/optimizer.h>

#include <memory>
#include <optional>

#include "train/networks/models.h"
#include "train/trainer/batches.h"
#include "train/trainer/checkpoint.h"
#include "train/trainer/device.h"
#include "train/trainer/emulated_accelerator.h"
#include "train/trainer/events.h"
#include "train/trainer/run_folder.h"
#include "train/trainer/run_meter.h"
#include "train/trainer/schedule.h"
#include "train/trainer/upload.h"
#include "xoe/communicator.h"

namespace xoe::train {

struct Setup {
  std::unique_ptr<BatchSource> data;
  c10::Device device = c10::kCPU;
  Upload upload{c10::kCPU};
  int threads = 1;
  models::ModelHandle model;
  at::MemoryFormat memory_format = at::MemoryFormat::Contiguous;  // of 4-dimensional weights and of images
  std::unique_ptr<::torch::optim::Optimizer> optimizer;
  std::optional<EmulatedAccelerator> emulated;  // computes in place of the model
};

// Without communication. Chooses the device, unless that is done, and sets libtorch's threads.
Status choose_processors(Setup& setup, const TrainOptions& options, int local_rank, int local_size);
// Opens the data for this share. REQUIRES: the device is chosen, where data are synthetic.
Status open_data(Setup& setup, const TrainOptions& options, const Share& share, Warn warn);
// On rank 0: whether the run may write where it is to write.
Status check_folders(const TrainOptions& options);
// Makes the model.
Status create_model(Setup& setup, const TrainOptions& options, int classes);
// Moves the model to its device and memory format, and creates an optimizer for it.
// REQUIRES: nothing else refers to the model's parameters yet.
void place_model(Setup& setup, const TrainOptions& options);
// Runs a step on blank images, since the first one takes longer: libraries prepare kernels, and memory is touched, also
// that of the optimizer's state. Of what it changes, only that state stays. REQUIRES: place_model() on a CPU.
void warm_up(Setup& setup, const TrainOptions& options);
// What dropout and stochastic depth leave out in a step is a function of seed, step, and rank or logical shard, so that
// a resumed run goes on as one that was not interrupted.
void seed_step(const Setup& setup, const TrainOptions& options, int stream, std::int64_t step);
// Moves images to the model's device and memory format.
at::Tensor place_images(const Setup& setup, const at::Tensor& images);

struct Plan {
  double steps_per_epoch = 0;  // 0: no epochs
  std::int64_t total_steps = 0;
  std::int64_t eval_interval = 0;  // steps; 0: at the end only
  // The schedule's step is the run's step minus this: other than 0 after ranks came or left, which changes how many
  // steps an epoch has.
  std::int64_t shift = 0;
  Schedule schedule;
};

// Collective. The same errors on all ranks. Also sets the number of classes, which rank `counter` knows or counts.
Status agree_on_data(BatchSource& data, Communicator& comm, int counter);

// Steps and learning rates from options and data.
Plan make_plan(const TrainOptions& options, const DataInfo& data, std::int64_t images_per_step);
// Continues the plan of a run that has come so far; `ranks_change`: perhaps with another number of ranks. A learning
// rate belongs to a place in the epochs; without epochs, to a step.
void shift_plan(Plan& plan, const TrainOptions& options, const Progress& progress, bool ranks_change);

// Steps from this batch on to the end of the last epoch, which is where its records end. nullopt: the run has a number
// of steps, or epochs that are not whole.
std::optional<std::int64_t> steps_left(const TrainOptions& options, const DataInfo& data, const Batch& next) noexcept;

// All but `seconds`.
Resized describe_resized(const TrainOptions& options, const Plan& plan, const Share& share, std::int64_t first_step);
// All that does not depend on the optimizer and on the first step.
RunStart describe_run(const TrainOptions& options, const Setup& setup, const Plan& plan, const Share& share);
// Images of all ranks in a pass.
std::int64_t joint_batch_of(const TrainOptions& options, const Share& share) noexcept;

// Adds this rank's held-out images up: all in one sum, or those of each of its logical shards. REQUIRES: the model is
// in evaluation mode; no gradients are recorded.
Status add_held_out(Setup& setup, const TrainOptions& options, ShardRange shards, std::vector<StepSums>& sums);

}  // namespace xoe::train

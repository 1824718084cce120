// One training run on this rank.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "train/trainer/checkpoint.h"
#include "train/trainer/events.h"
#include "train/trainer/model_update.h"
#include "train/trainer/rank_state.h"
#include "train/trainer/resizing.h"
#include "train/trainer/run_meter.h"
#include "train/trainer/run_outputs.h"
#include "train/trainer/setup.h"
#include "train/trainer/shard_sums.h"
#include "train/trainer/state_exchange.h"
#include "train/trainer/step_batches.h"
#include "train/trainer/trace.h"

namespace xoe::train {

class Run {
 public:
  Run(const TrainOptions& options, Communicator& comm, Listener& listener, const std::atomic<bool>& stop,
      Resizing* resizing);
  ~Run() { give_back(); }
  Run(const Run&) = delete;
  Result<Outcome> run();

 private:
  Result<Outcome> run_steps();
  Status prepare();
  // Data and model of this rank: as another world left them, or new ones.
  Status prepare_rank(const Holders& holders);
  // This rank's part of the data, as options_.on_resize has it.
  Share share() const noexcept;
  Status reshard();
  // Warns where ranks may compute other bits from the same numbers.
  Status compare_processors();
  // Runs reductions, and writes the timeline.
  Status start_engine();
  // The values of the model: those of other ranks, of a checkpoint, of a file, or new ones. `sections`: of the
  // checkpoint, if there is one.
  Status prepare_model(const Holders& holders, std::optional<Sections>& sections);
  Status create_optimizer();
  // same_run: it goes on with other ranks; else: from a checkpoint.
  Status resume(const Progress& progress, bool same_run);
  Status restore_checkpoint(const Sections& sections);
  // Where the data go on.
  Status find_position(const Progress& progress, bool same_run);
  Status open_outputs();
  Status begin_ledger();
  Status step();
  bool updates() const noexcept { return trains() && !setup_.emulated; }
  bool trains() const noexcept { return options_.step_kind == StepKind::kTrain; }
  Status fetch();
  bool evaluation_due() const noexcept;
  // own: the sums of each pass. finite: this rank's gradients; then those of all ranks.
  Result<StepSums> exchange(const std::vector<StepSums>& own, bool& finite);
  // For a sum over ranks, and what it then says of all of them.
  std::vector<double> values_of(const std::vector<StepSums>& own) const;
  StepSums sums_in(const double* values) const;
  bool has_shards() const noexcept { return options_.logical_shards > 0; }
  ShardRange my_shards() const noexcept;
  Status after_step();
  // What was left for this world, so that ranks left the last one sooner.
  Status catch_up();
  Status evaluate_and_save(bool evaluates, bool saves);
  // What the next world does first, should this one lose a rank before it is done.
  void postpone(bool evaluation, bool checkpoint) noexcept;
  Status report();
  Status evaluate();
  Status checkpoint();
  Result<Outcome> leave_world();
  // For the next world.
  void keep_state();
  // Remembers what the step that is finished leaves behind, for survive().
  void keep_finished();
  // Leaves the world because a rank was lost, with the state of the last step that this one has finished.
  Result<Outcome> survive(const Error& loss);
  Progress progress() const;
  // Takes the optimizer of all ranks apart: what is this rank's is in state_ again.
  void give_back();
  void close();
  Result<Outcome> finish();
  void tell_start();
  void tell_resized();
  RunStart start_event() const;

  // For errors that all ranks return.
  Status on_all_ranks(Status status);
  // Keeps the first error of this rank's files until the ranks stop together.
  void hold(Status status);
  bool first() const noexcept { return comm_.rank() == 0; }
  double epoch() const noexcept;

  TrainOptions options_;
  Communicator& comm_;
  Listener& listener_;
  struct {
    const std::atomic<bool>& stop;
    Resizing* resizing;  // nullptr: the number of ranks stays
  } requests_;

  const std::shared_ptr<RankState> state_;
  Setup& setup_;
  Plan plan_;
  std::optional<RunOutputs> outputs_;  // of rank 0
  std::unique_ptr<Engine> engine_;
  std::optional<Communicator> alone_;      // this rank, for the optimizer of logical shards
  std::unique_ptr<ShardSums> shard_sums_;  // null: there are no logical shards
  std::optional<ModelUpdate> update_;
  std::optional<StepBatches> input_;
  std::optional<StepTrace> trace_;

  std::int64_t step_ = 0;  // steps that are finished
  std::int64_t first_step_ = 0;
  enum class After : std::uint8_t { kStep, kStop, kNextWorld } next_ = After::kStep;
  Status held_;
  std::int64_t checkpoint_step_ = -1;
  std::int64_t evaluated_step_ = -1;
  std::int64_t first_joint_batch_ = 0;  // of a pass on all ranks when the training began
  bool goes_on_ = false;                // from another world of this run
  std::string whole_optimizer_ = {};    // its state before it was sharded; empty: it is not, or has taken a step
  bool finished_ = false;               // all that is left is that the other ranks are told
  // After the last finished step, where the training survives the loss of a rank.
  struct Kept {
    std::vector<at::Tensor> buffers;
    Progress progress;
  };
  std::optional<Kept> kept_;

  Clock::time_point start_;
  RunMeter meter_;
  Outcome outcome_;
};

}  // namespace xoe::train

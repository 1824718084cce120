// One training run on this rank.
#pragma once

#include <array>
#include <atomic>
#include <optional>

#include "train/checkpoint.h"
#include "train/events.h"
#include "train/setup.h"
#include "train/trace.h"

namespace xoe::train {

class Run {
 public:
  Run(const TrainOptions& options, Communicator& comm, Listener& listener, const std::atomic<bool>& stop);
  Result<Outcome> run();

 private:
  // Sums over ranks of what a step found.
  struct StepSums {
    double stop = 0;
    double failed = 0;
    double loss = 0;  // times images
    double correct = 0;
    double images = 0;
    StepSums& operator+=(const StepSums& other) noexcept;
  };

  Status prepare();
  Status check_same_data();
  Status resume(const Sections& sections);
  Status loop();
  Status step();
  Status forward_backward(StepSums& sums);
  Status fetch();
  void keep_position();
  bool evaluation_due() const noexcept;
  Status exchange(StepSums& sums);
  Status after_step();
  Status report();
  Status evaluate();
  Status checkpoint();
  Result<Outcome> finish();
  RunStart start_event() const;

  // An error that all ranks return.
  Status everywhere(Status status);
  // Keeps the first error of this rank's files until the ranks stop together.
  void hold(Status status);
  bool first() const noexcept { return comm_.rank() == 0; }
  double epoch() const noexcept;

  const TrainOptions& options_;
  Communicator& comm_;
  Listener& listener_;
  const std::atomic<bool>& stop_;

  Setup setup_;
  Plan plan_;
  std::optional<RunFolder> folder_;
  std::optional<StepTrace> trace_;
  std::optional<xoe::torch::DistributedOptimizer> optimizer_;

  std::int64_t step_ = 0;  // finished ones
  std::int64_t first_step_ = 0;
  std::vector<Batch> batches_;  // of the next step
  std::string position_;        // of the data after the batches of all finished steps; kept for checkpoints only
  bool stopping_ = false;
  Status held_;
  std::int64_t checkpoint_step_ = -1;

  Clock::time_point start_;
  Clock::time_point last_flush_;
  StepSums sums_;  // since the last report
  SpeedMeter speed_;
  StepTimes times_;      // of this rank, since the last report
  StepTimes all_times_;  // means over ranks, of the whole run
  Outcome outcome_;
};

}  // namespace xoe::train

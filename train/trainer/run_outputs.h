// What rank 0 writes of a run while it goes on: its folder, event files elsewhere, a run of MLflow, MLPerf's log.
#pragma once

#include <optional>
#include <string>

#include "train/trainer/event_file.h"
#include "train/trainer/mlflow_run.h"
#include "train/trainer/mlperf_log.h"
#include "train/trainer/options.h"
#include "train/trainer/run_folder.h"

namespace xoe::train {

// Each exists if the options name it. Every function goes on with the others where one fails, and returns the first
// error.
class RunOutputs {
 public:
  // Writes from `first_step` on.
  static Result<RunOutputs> open(const TrainOptions& options, std::int64_t first_step);

  Status started(const RunStart& start, const TrainOptions& options);
  Status reported(const Report& report);
  Status evaluation_begins(std::int64_t step);
  Status evaluated(const Evaluation& evaluation);
  Status finished(const Outcome& outcome);

  const std::optional<RunFolder>& folder() const noexcept { return folder_; }

 private:
  std::optional<RunFolder> folder_;
  std::optional<EventFile> events_;
  std::optional<MlflowRun> mlflow_;
  std::optional<MlperfLog> mlperf_;
  std::int64_t images_in_step_ = 0;
};

}  // namespace xoe::train

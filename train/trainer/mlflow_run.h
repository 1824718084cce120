// A run in MLflow's file store, which `mlflow ui --backend-store-uri DIR` shows: mlflow/store/tracking/file_store.py
// has its form.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "train/trainer/event_file.h"
#include "train/trainer/events.h"
#include "train/trainer/files.h"
#include "train/trainer/options.h"

namespace xoe::train {

class MlflowRun {
 public:
  // A new run of the store's default experiment; one that is resumed from its checkpoints goes on, without what it had
  // written of steps after `first_step`. Options become parameters.
  static Result<MlflowRun> open(const TrainOptions& options, std::int64_t first_step);

  // The model's name becomes the run's, and a parameter, as the number of ranks.
  Status started(const RunStart& start);
  Status write(std::int64_t step, std::span<const Scalar> scalars);
  Status finished(const Outcome& outcome);

 private:
  MlflowRun(std::string store, std::string id, std::int64_t began_ms)
      : store_(std::move(store)), id_(std::move(id)), began_ms_(began_ms) {}
  std::string path_of(const std::string& file) const;
  Status put(const std::string& file, const std::string& text) const;
  enum class State : std::uint8_t { kRunning = 1, kFinished = 3, kKilled = 5 };  // MLflow's RunStatus
  Status write_about(State state) const;
  Status forget_after(std::int64_t step) const;

  std::string store_;  // absolute
  std::string id_;
  std::string name_ = "xoe-train";
  std::int64_t began_ms_;
  std::map<std::string, GrowingFile, std::less<>> metrics_;
};

}  // namespace xoe::train

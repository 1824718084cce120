// MLPerf's log of a training run: lines `:::MLLOG {...}`, as mlcommons/logging defines them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "train/trainer/events.h"
#include "train/trainer/files.h"
#include "train/trainer/options.h"

namespace xoe::train {

class MlperfLog {
 public:
  // Begins a new file, or appends for a run that was resumed, and writes that initialisation began, when this
  // process started.
  static Result<MlperfLog> open(const std::string& path, std::int64_t first_step);

  // Initialisation is over, and the run begins.
  Status started(const RunStart& start, const TrainOptions& options);
  // images: trained on since the start of the training, by all ranks.
  Status reported(const Report& report, std::int64_t images);
  Status evaluation_begins(std::int64_t images);
  Status evaluated(const Evaluation& evaluation, std::int64_t images);
  Status finished(const Outcome& outcome, std::int64_t images);

 private:
  explicit MlperfLog(GrowingFile file) : file_(std::move(file)) {}

  GrowingFile file_;
  std::int64_t block_start_ = 0;  // images at which the block of training began that is under way
};

}  // namespace xoe::train

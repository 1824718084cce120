// The output folder of a run: metrics.jsonl, one line per event, and curve.svg.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/output_file.h"
#include "train/curve.h"
#include "train/events.h"
#include "train/files.h"

namespace xoe::train {

class RunFolder {
 public:
  // Truncates the files when first_step is 0. A resumed run keeps the lines up to that step and appends.
  static Result<RunFolder> open(const std::string& path, std::int64_t first_step);

  Status started(const RunStart& start);
  Status reported(const Report& report);
  Status evaluated(const Evaluation& evaluation);
  // Draws the current plot; also called after each evaluation.
  Status finished(const Outcome& outcome);

  std::string curve_path() const { return path_ + "/curve.svg"; }

 private:
  RunFolder(std::string path, LineFile metrics) : path_(std::move(path)), metrics_(std::move(metrics)) {}
  Status draw() const { return write_file(curve_path(), curve_svg(curve_)); }

  std::string path_;
  LineFile metrics_;
  Curve curve_;
};

}  // namespace xoe::train

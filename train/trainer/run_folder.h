// The output folder of a run: metrics.jsonl, one line per event, the same for TensorBoard, and curve.svg.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/output_file.h"
#include "train/trainer/curve.h"
#include "train/trainer/event_file.h"
#include "train/trainer/events.h"
#include "train/trainer/files.h"

namespace xoe::train {

// Whether a run has written into the folder.
bool holds_run(const std::string& path);
// A folder beside `path` that is not there yet: "runs/a-2" for "runs/a", "runs/a-3" for "runs/a-2".
std::string free_folder_beside(std::string path);
// Where `path` is when the folder `from` becomes `to`: "runs/a-2/t.json" for "runs/a/t.json". Others stay as they are.
std::string moved_along(const std::string& path, const std::string& from, const std::string& to);
// `invalid_argument`, with what to do instead, where a new run would overwrite the one that the folder holds.
Status check_free(const std::string& path);

class RunFolder {
 public:
  // Writes from `first_step` on. A resumed run keeps its lines up to that step and appends. With 0, or where the folder
  // holds a run with other `checkpoints`, what is there is set aside: metrics.jsonl becomes metrics-1.jsonl.
  static Result<RunFolder> open(const std::string& path, std::int64_t first_step, const std::string& checkpoints = {});

  Status started(const RunStart& start);
  Status reported(const Report& report);
  Status evaluated(const Evaluation& evaluation);
  // Draws the current plot; also called after each evaluation.
  Status finished(const Outcome& outcome);

  // Where the metrics of an earlier run are now that were in the way; empty: there were none.
  const std::string& earlier() const noexcept { return earlier_; }
  std::string curve_path() const { return path_ + "/curve.svg"; }

 private:
  RunFolder(std::string path, GrowingFile metrics, EventFile events)
      : path_(std::move(path)), metrics_(std::move(metrics)), events_(std::move(events)) {}
  Status draw() const { return write_file(curve_path(), curve_svg(curve_)); }

  std::string path_;
  std::string earlier_;
  GrowingFile metrics_;
  EventFile events_;
  Curve curve_;
};

}  // namespace xoe::train

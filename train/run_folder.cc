#include "train/run_folder.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "train/texts.h"

namespace xoe::train {
namespace {

struct Kept {
  std::string lines;
  Curve curve;
};

// The lines of an earlier run up to `step`. Malformed lines, as after a crash, are dropped.
Kept keep_until(const std::string& metrics, std::int64_t step) {
  Kept kept;
  for (const std::string& line : split_text(metrics, '\n')) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) continue;
    const std::string event = json.value("event", "");
    const std::int64_t at = json.value("step", std::int64_t{0});
    if (at > step || event == "end") continue;
    kept.lines += line + '\n';
    if (event == "report" && json["loss"].is_number()) kept.curve.loss.push_back({at, json["loss"]});
    if (event == "evaluation" && json["accuracy"].is_number()) kept.curve.accuracy.push_back({at, json["accuracy"]});
  }
  return kept;
}

}  // namespace

Result<RunFolder> RunFolder::open(const std::string& path, std::int64_t first_step) {
  XOE_TRY(make_folder(path));
  const std::string metrics_path = path + "/metrics.jsonl";
  Kept kept;
  if (first_step > 0) {
    if (auto before = read_file(metrics_path)) kept = keep_until(*before, first_step);
    XOE_TRY(write_file(metrics_path, kept.lines));
  }
  XOE_ASSIGN(auto metrics, LineFile::open(metrics_path, /*append=*/first_step > 0));
  RunFolder folder(path, std::move(metrics));
  folder.curve_ = std::move(kept.curve);
  return folder;
}

Status RunFolder::started(const RunStart& start) {
  curve_.title =
      fmt::format("{}, {} {} x batch {}, images {}x{}", start.model, start.ranks, start.ranks == 1 ? "rank" : "ranks",
                  start.batch, start.image_size.height, start.image_size.width);
  return metrics_.write(start_json(start));
}

Status RunFolder::reported(const Report& report) {
  curve_.loss.push_back({report.step, report.loss});
  return metrics_.write(report_json(report));
}

Status RunFolder::evaluated(const Evaluation& evaluation) {
  curve_.accuracy.push_back({evaluation.step, evaluation.accuracy});
  XOE_TRY(metrics_.write(evaluation_json(evaluation)));
  return draw();
}

Status RunFolder::finished(const Outcome& outcome) {
  XOE_TRY(metrics_.write(outcome_json(outcome)));
  return draw();
}

}  // namespace xoe::train

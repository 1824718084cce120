#include "train/run_folder.h"

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "train/texts.h"

namespace xoe::train {
namespace {

namespace fs = std::filesystem;

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

constexpr std::int64_t kMostRuns = 1000;  // a larger number in a folder's name is a date or the like

std::string metrics_path(const std::string& folder) { return folder + "/metrics.jsonl"; }

// To the first name that is free, which is returned.
Result<std::string> set_aside(const std::string& folder) {
  std::error_code error;
  int number = 1;
  const auto name = [&] { return fmt::format("{}/metrics-{}.jsonl", folder, number); };
  while (fs::exists(name(), error)) ++number;
  fs::rename(metrics_path(folder), name(), error);
  if (!error) return name();
  return failure(Code::kUnavailable, "cannot rename {} to {}: {}", metrics_path(folder), name(),
                 errno_text(error.value()));
}

}  // namespace

bool holds_run(const std::string& path) {
  std::error_code none;
  const auto bytes = fs::file_size(metrics_path(path), none);
  return !none && bytes > 0;
}

std::string free_folder_beside(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  std::int64_t number = 2;
  if (const auto dash = path.rfind('-'); dash != std::string::npos && dash > path.rfind('/') + 1) {
    if (const auto last = parse_integer(std::string_view(path).substr(dash + 1));
        last && *last > 0 && *last < kMostRuns) {
      number = *last + 1;
      path.erase(dash);
    }
  }
  std::error_code ignored;
  while (fs::exists(fmt::format("{}-{}", path, number), ignored)) ++number;
  return fmt::format("{}-{}", path, number);
}

Status check_free(const std::string& path) {
  if (!holds_run(path)) return {};
  return failure(Code::kInvalidArgument,
                 "{} already holds a run; write into another folder, --run-dir {} for example, or continue that run "
                 "with its --checkpoint DIR and --resume",
                 path, free_folder_beside(path));
}

Result<RunFolder> RunFolder::open(const std::string& path, std::int64_t first_step) {
  XOE_TRY(make_folder(path));
  Kept kept;
  std::string earlier;
  if (first_step > 0) {
    if (auto before = read_file(metrics_path(path))) kept = keep_until(*before, first_step);
    XOE_TRY(write_file(metrics_path(path), kept.lines));
  } else if (holds_run(path)) {
    XOE_ASSIGN(earlier, set_aside(path));
  }
  XOE_ASSIGN(auto metrics, GrowingFile::open(metrics_path(path), /*append=*/first_step > 0));
  XOE_ASSIGN(auto events, EventFile::begin(path, first_step));
  RunFolder folder(path, std::move(metrics), std::move(events));
  folder.earlier_ = std::move(earlier);
  folder.curve_ = std::move(kept.curve);
  return folder;
}

Status RunFolder::started(const RunStart& start) {
  curve_.title =
      fmt::format("{}, {} {} x batch {}, images {}x{}", start.model, start.ranks, start.ranks == 1 ? "rank" : "ranks",
                  start.batch, start.image_size.height, start.image_size.width);
  return metrics_.append(start_json(start) + '\n');
}

Status RunFolder::reported(const Report& report) {
  curve_.loss.push_back({report.step, report.loss});
  XOE_TRY(metrics_.append(report_json(report) + '\n'));
  std::vector<Scalar> scalars = {{"loss/train", report.loss},
                                 {"accuracy/train", report.accuracy},
                                 {"rate", report.rate},
                                 {"share/data", report.share.data},
                                 {"share/compute", report.share.compute},
                                 {"share/peers", report.share.peers},
                                 {"share/optimizer", report.share.optimizer}};
  if (report.speed.mean > 0) scalars.push_back({"images_per_second", report.speed.mean});  // else not measured yet
  return events_.write(report.step, scalars);
}

Status RunFolder::evaluated(const Evaluation& evaluation) {
  curve_.accuracy.push_back({evaluation.step, evaluation.accuracy});
  XOE_TRY(metrics_.append(evaluation_json(evaluation) + '\n'));
  const std::array<Scalar, 2> scalars = {
      {{"loss/held-out", evaluation.loss}, {"accuracy/held-out", evaluation.accuracy}}};
  XOE_TRY(events_.write(evaluation.step, scalars));
  return draw();
}

Status RunFolder::finished(const Outcome& outcome) {
  XOE_TRY(metrics_.append(outcome_json(outcome) + '\n'));
  return draw();
}

}  // namespace xoe::train

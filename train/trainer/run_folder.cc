#include "train/trainer/run_folder.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "train/trainer/scalars.h"
#include "train/trainer/texts.h"

namespace xoe::train {
namespace {

namespace fs = std::filesystem;

struct Kept {
  std::string lines;
  Curve curve;
};

// Empty where `json` is no object, or has no such text.
std::optional<std::string> text_in(const nlohmann::json& json, const char* key) {
  if (!json.is_object()) return std::nullopt;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

void add_point(std::vector<CurvePoint>& points, std::int64_t step, const nlohmann::json& json, const char* key) {
  if (const auto found = json.find(key); found != json.end() && found->is_number()) points.push_back({step, *found});
}

// The lines of an earlier run up to `step`. Malformed lines, as after a crash, are dropped.
Kept keep_until(const std::string& metrics, std::int64_t step) {
  Kept kept;
  for (const std::string& line : split_text(metrics, '\n')) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto event = text_in(json, "event");
    if (!event) continue;
    std::int64_t at = 0;
    if (const auto found = json.find("step"); found != json.end()) {
      if (!found->is_number_integer()) continue;
      at = *found;
    }
    if (at > step || event == "end") continue;
    kept.lines += line + '\n';
    if (event == "report") add_point(kept.curve.loss, at, json, "loss");
    if (event == "evaluation") add_point(kept.curve.accuracy, at, json, "accuracy");
  }
  return kept;
}

// Where a run and its checkpoints were.
struct Origin {
  std::string folder;
  std::string checkpoints;
};

// What the last start in `metrics` says of it; nullopt: nothing. Version 0.1.0 wrote neither name.
std::optional<Origin> origin_in(const std::string& metrics) {
  std::optional<Origin> origin;
  for (const std::string& line : split_text(metrics, '\n')) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (text_in(json, "event") != "start") continue;
    const auto folder = text_in(json, "run_dir"), checkpoints = text_in(json, "checkpoints");
    origin.reset();
    if (folder || checkpoints) origin = Origin{.folder = folder.value_or(""), .checkpoints = checkpoints.value_or("")};
  }
  return origin;
}

// Whether the folder was copied or moved with the checkpoints in it.
bool moved_with_checkpoints(const std::string& folder, const std::string& checkpoints, const Origin& origin) {
  const fs::path within = fs::path(normal_path(checkpoints)).lexically_relative(normal_path(folder));
  if (within.empty() || within == "." || *within.begin() == ".." || origin.folder.empty()) return false;
  return normal_path(origin.checkpoints) == normal_path((fs::path(origin.folder) / within).string());
}

// Whether the last start in the folder's `metrics` was of a run with these checkpoints.
bool is_of_run(const std::string& folder, const std::string& metrics, const std::string& checkpoints) {
  const auto origin = origin_in(metrics);
  if (!origin) return true;
  std::error_code ignored;
  return normal_path(origin->checkpoints) == normal_path(checkpoints) ||
         fs::equivalent(origin->checkpoints, checkpoints, ignored) ||
         moved_with_checkpoints(folder, checkpoints, *origin);
}

constexpr std::int64_t kMostRuns = 1000;  // a larger number in a folder's name is a date or the like

std::string metrics_path(const std::string& folder) { return folder + "/metrics.jsonl"; }

// What a run that starts in the folder writes again. Gives metrics.jsonl's new name, with the first number that is
// free.
Result<std::string> set_aside(const std::string& folder) {
  constexpr std::array<std::array<std::string_view, 2>, 3> kFiles = {
      {{"metrics", "jsonl"}, {"environment", "json"}, {"curve", "svg"}}};
  std::error_code error;
  const auto numbered = [&](const auto& file, int number) {
    return fmt::format("{}/{}-{}.{}", folder, file[0], number, file[1]);
  };
  int number = 1;
  while (std::ranges::any_of(kFiles, [&](const auto& file) { return fs::exists(numbered(file, number), error); }))
    ++number;
  for (const auto& file : kFiles) {
    const std::string before = fmt::format("{}/{}.{}", folder, file[0], file[1]);
    fs::rename(before, numbered(file, number), error);
    if (error && error != std::errc::no_such_file_or_directory)
      return failure(Code::kUnavailable, "cannot rename {} to {}: {}", before, numbered(file, number),
                     errno_text(error.value()));
  }
  return numbered(kFiles[0], number);
}

}  // namespace

bool holds_run(const std::string& path) {
  std::error_code none;
  const auto bytes = fs::file_size(metrics_path(path), none);
  return !none && bytes > 0;
}

std::string free_folder_beside(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (const fs::path last = fs::path(path).filename(); last == "." || last == "..") path = normal_path(path);
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

std::string moved_along(const std::string& path, const std::string& from, const std::string& to) {
  if (path.empty()) return path;
  const fs::path within = fs::path(normal_path(path)).lexically_relative(normal_path(from));
  if (within.empty() || *within.begin() == "..") return path;
  return within == "." ? to : (fs::path(to) / within).string();
}

Result<RunFolder> RunFolder::open(const std::string& path, std::int64_t first_step, const std::string& checkpoints) {
  XOE_TRY(make_folder(path));
  std::string before;
  std::error_code error;
  if (fs::exists(metrics_path(path), error) || error) {
    XOE_ASSIGN(before, read_file(metrics_path(path)));
  }
  Kept kept;
  std::string earlier;
  if (first_step > 0 && is_of_run(path, before, checkpoints)) {
    kept = keep_until(before, first_step);
    XOE_TRY(write_file(metrics_path(path), kept.lines));
  } else if (!before.empty()) {
    XOE_ASSIGN(earlier, set_aside(path));
  }
  XOE_ASSIGN(auto metrics, GrowingFile::open(metrics_path(path), /*append=*/first_step > 0));
  // The curve of a run that was set aside is not this one's beginning.
  XOE_ASSIGN(auto events, EventFile::begin(path, earlier.empty() ? first_step : 0));
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
  return events_.write(report.step, scalars_of(report));
}

Status RunFolder::evaluated(const Evaluation& evaluation) {
  curve_.accuracy.push_back({evaluation.step, evaluation.accuracy});
  XOE_TRY(metrics_.append(evaluation_json(evaluation) + '\n'));
  XOE_TRY(events_.write(evaluation.step, scalars_of(evaluation)));
  return draw();
}

Status RunFolder::finished(const Outcome& outcome) {
  XOE_TRY(metrics_.append(outcome_json(outcome) + '\n'));
  return draw();
}

}  // namespace xoe::train

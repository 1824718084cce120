#include "train/trainer/mlflow_run.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/random_token.h"
#include "core/base/text.h"
#include "train/trainer/environment.h"
#include "train/trainer/wall_clock.h"

namespace xoe::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExperiment = "0";  // MLflow's default one
constexpr std::string_view kCheckpointsTag = "xoe.checkpoints";
constexpr std::size_t kLongestParameter = 6000;  // MLflow's limit, in characters

// A text in double quotes is the same in JSON and in YAML.
std::string yaml_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
}

// "mlruns" or "file:///home/me/mlruns"; MLflow's servers and databases are no folders.
Result<std::string> folder_of(std::string_view given) {
  constexpr std::string_view kFile = "file://";
  std::string_view path = given;
  if (path.starts_with(kFile)) path.remove_prefix(kFile.size());
  if (path.find("://") != std::string_view::npos || path.empty())
    return failure(Code::kInvalidArgument,
                   "--mlflow {}: give a folder; `mlflow migrate-filestore` moves its runs into a database", given);
  return normal_path(std::string(path));
}

Status write_experiment(const std::string& store) {
  const std::string path = fmt::format("{}/{}/meta.yaml", store, kExperiment);
  XOE_TRY(make_folder(fs::path(path).parent_path()));
  std::error_code ignored;
  if (fs::exists(path, ignored)) return {};
  const auto now = now_ms();
  return write_file(path,
                    fmt::format("artifact_location: {}\ncreation_time: {}\nexperiment_id: '{}'\n"
                                "last_update_time: {}\nlifecycle_stage: active\nname: Default\n",
                                yaml_text(fmt::format("file://{}/{}", store, kExperiment)), now, kExperiment, now));
}

// The newest run with these checkpoints.
std::optional<std::string> find_run(const std::string& store, const std::string& checkpoints) {
  std::optional<std::string> found;
  fs::file_time_type newest = fs::file_time_type::min();
  std::error_code ignored;
  for (fs::directory_iterator run(fmt::format("{}/{}", store, kExperiment), ignored), end; run != end && !ignored;
       run.increment(ignored)) {
    const fs::path tag = run->path() / "tags" / kCheckpointsTag;
    const auto text = read_file(tag);
    std::error_code unknown;
    const auto at = fs::last_write_time(tag, unknown);
    if (!text || *text != checkpoints || (found && at <= newest)) continue;
    found = run->path().filename();
    newest = at;
  }
  return found;
}

// When the run began, as its meta.yaml has it.
std::int64_t began_ms(const std::string& meta) {
  constexpr std::string_view kKey = "start_time: ";
  const auto text = read_file(meta);
  const auto at = text ? text->find(kKey) : std::string::npos;
  if (at == std::string::npos) return now_ms();
  const std::string_view rest = std::string_view(*text).substr(at + kKey.size());
  return parse_integer(trimmed(rest.substr(0, rest.find('\n')))).value_or(now_ms());
}

}  // namespace

std::string MlflowRun::path_of(const std::string& file) const {
  return fmt::format("{}/{}/{}/{}", store_, kExperiment, id_, file);
}

Status MlflowRun::put(const std::string& file, const std::string& text) const {
  return write_file(path_of(file), text);
}

Status MlflowRun::write_about(State state) const {
  const std::string end = state == State::kRunning ? "null" : std::to_string(now_ms());
  return put("meta.yaml",
             fmt::format("artifact_uri: {}\nend_time: {}\nentry_point_name: ''\nexperiment_id: '{}'\n"
                         "lifecycle_stage: active\nrun_id: {}\nrun_name: {}\nrun_uuid: {}\nsource_name: xoe train\n"
                         "source_type: 4\nsource_version: ''\nstart_time: {}\nstatus: {}\ntags: []\nuser_id: ''\n",
                         yaml_text("file://" + path_of("artifacts")), end, kExperiment, id_, yaml_text(name_), id_,
                         began_ms_, static_cast<int>(state)));
}

Status MlflowRun::forget_after(std::int64_t step) const {
  std::error_code ignored;
  for (fs::recursive_directory_iterator file(path_of("metrics"), ignored), end; file != end && !ignored;
       file.increment(ignored)) {
    std::error_code unknown;
    if (!file->is_regular_file(unknown)) continue;
    XOE_ASSIGN(const std::string text, read_file(file->path()));
    std::string kept;
    for (const std::string& line : split_text(text, '\n')) {
      const auto number = parse_integer(line.substr(line.find_last_of(' ') + 1));
      if (number && *number <= step) kept += line + "\n";
    }
    XOE_TRY(write_file(file->path(), kept));
  }
  return {};
}

Result<MlflowRun> MlflowRun::open(const TrainOptions& options, std::int64_t first_step) {
  XOE_ASSIGN(const std::string store, folder_of(options.mlflow));
  const std::string checkpoints = normal_path(options.checkpoint_dir);
  XOE_TRY(write_experiment(store));
  auto id = first_step > 0 && !checkpoints.empty() ? find_run(store, checkpoints) : std::nullopt;
  const bool resumed = id.has_value();
  if (!resumed) {
    XOE_ASSIGN(id, random_token());
  }
  MlflowRun run(store, *id, 0);
  run.began_ms_ = resumed ? began_ms(run.path_of("meta.yaml")) : now_ms();
  for (const char* folder : {"artifacts", "metrics", "params", "tags"}) XOE_TRY(make_folder(run.path_of(folder)));
  const auto values = options_json(options);
  for (const auto& [name, value] : values.items()) {
    std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (text.size() > kLongestParameter) text.resize(kLongestParameter);
    XOE_TRY(run.put("params/" + name, text));
  }
  if (!checkpoints.empty()) XOE_TRY(run.put(fmt::format("tags/{}", kCheckpointsTag), checkpoints));
  if (resumed) XOE_TRY(run.forget_after(first_step));
  XOE_TRY(run.write_about(State::kRunning));
  return run;
}

Status MlflowRun::started(const RunStart& start) {
  name_ = fmt::format("{} on {}", start.model, counted(start.ranks, "rank"));
  XOE_TRY(put("tags/mlflow.runName", name_));
  XOE_TRY(put("params/model", start.model));
  XOE_TRY(put("params/ranks", std::to_string(start.ranks)));
  return write_about(State::kRunning);
}

Status MlflowRun::write(std::int64_t step, std::span<const Scalar> scalars) {
  const auto now = now_ms();
  for (const Scalar& scalar : scalars) {
    auto file = metrics_.find(scalar.tag);
    if (file == metrics_.end()) {
      const std::string path = path_of("metrics/" + std::string(scalar.tag));
      XOE_TRY(make_folder(fs::path(path).parent_path()));
      XOE_ASSIGN(auto opened, GrowingFile::open(path, /*append=*/true));
      file = metrics_.emplace(scalar.tag, std::move(opened)).first;
    }
    XOE_TRY(file->second.append(fmt::format("{} {:.17g} {}\n", now, scalar.value, step)));
  }
  return {};
}

Status MlflowRun::finished(const Outcome& outcome) {
  return write_about(outcome.interrupted ? State::kKilled : State::kFinished);
}

}  // namespace xoe::train

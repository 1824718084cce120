#include "launch/sweep/trial_records.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/text.h"
#include "core/base/text_file.h"
#include "core/base/write_all.h"

namespace xoe::launch {
namespace {

using Json = nlohmann::json;

// What makes it this sweep and no other.
std::string description(const std::vector<Trial>& trials, const std::vector<std::string>& command,
                        const std::string& metric) {
  Json json{{"command", command}, {"metric", metric}, {"trials", Json::array()}};
  for (const Trial& trial : trials) {
    Json& values = json["trials"].emplace_back(Json::object());
    for (const auto& [name, value] : trial) values[name] = value;
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Status describe_sweep(const std::string& folder, const std::string& wanted) {
  const std::string path = folder + "/sweep.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return write_file(path, wanted);
  const auto found = read_text_file(path);
  if (!found) return failure(Code::kUnavailable, "{}: {}", path, found.error().message());
  if (*found == wanted) return {};
  return failure(Code::kInvalidArgument, "{} has a sweep of other trials, or of another command; choose another --dir",
                 folder);
}

// The last line may be the beginning of one, if this program was killed.
void read_records(const std::string& text, std::vector<std::optional<TrialRecord>>& records) {
  for (const std::string& line : split_text(text, '\n')) {
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) continue;
    const auto trial = json.value("trial", Json());
    const auto code = json.value("code", Json());
    if (!trial.is_number_unsigned() || trial == 0 || trial > records.size() || !code.is_number_integer()) continue;
    TrialRecord record{.code = code.get<int>()};
    if (const auto seconds = json.value("seconds", Json()); seconds.is_number()) record.seconds = seconds.get<double>();
    if (const auto metric = json.value("metric", Json()); metric.is_number()) record.metric = metric.get<double>();
    if (const auto problem = json.value("problem", Json()); problem.is_string())
      record.problem = problem.get<std::string>();
    records[trial.get<std::size_t>() - 1] = std::move(record);
  }
}

}  // namespace

Result<TrialRecords> TrialRecords::open(const std::string& folder, const std::vector<Trial>& trials,
                                        const std::vector<std::string>& command, const std::string& metric) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return failure(Code::kUnavailable, "cannot make the folder {}: {}", folder, error.message());
  Fd lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock.valid()) return failure(Code::kUnavailable, "cannot open {}: {}", folder, errno_text(errno));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return failure(Code::kUnavailable, "another xoe sweep works in {}; wait for it, or choose another --dir", folder);
  XOE_TRY(describe_sweep(folder, description(trials, command, metric)));
  const std::string path = folder + "/results.jsonl";
  Fd results(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!results.valid()) return failure(Code::kUnavailable, "cannot write {}: {}", path, errno_text(errno));
  TrialRecords records(path, std::move(lock), std::move(results), trials.size());
  const auto text = read_text_file(path);
  if (!text) return failure(Code::kUnavailable, "{}: {}", path, text.error().message());
  read_records(*text, records.records_);
  // What follows must not become the end of an unfinished line.
  if (!text->empty() && text->back() != '\n') XOE_TRY(write_all(records.results_.get(), path, "\n"));
  return records;
}

Status TrialRecords::add(std::size_t trial, const TrialRecord& record) {
  Json json{{"trial", trial + 1}, {"code", record.code}, {"seconds", record.seconds}};
  if (record.metric && std::isfinite(*record.metric)) json["metric"] = *record.metric;
  if (!record.problem.empty()) json["problem"] = record.problem;
  records_[trial] = record;
  return write_all(results_.get(), path_, json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace xoe::launch

#include "measure/pages/run_record.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/base/text.h"

namespace xoe::pages {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kLongestLine = std::size_t{1} << 20;
constexpr std::size_t kMostRanks = 4096;
constexpr std::size_t kMostFindings = 1000;
constexpr double kLargest = 1e30;  // what a plot can show

// Python and others write NaN and Infinity, which JSON does not have: they become null.
std::string without_infinities(std::string_view line) {
  std::string out;
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted) {
      out += c;
      if (c == '\\' && i + 1 < line.size()) out += line[++i];
      quoted = c != '"';
      continue;
    }
    std::size_t length = 0;
    while (i + length < line.size() && std::isalpha(static_cast<unsigned char>(line[i + length])) != 0) ++length;
    const std::string_view word = line.substr(i, length);
    if (word == "NaN" || word == "nan" || word == "Infinity" || word == "inf") {
      if (out.ends_with('-')) out.pop_back();
      out += "null";
      i += length - 1;
    } else if (length > 0) {
      out += word;
      i += length - 1;
    } else {
      out += c;
      quoted = c == '"';
    }
  }
  return out;
}

class RunReader {
 public:
  // One line of metrics.jsonl.
  void take(std::string_view line, std::size_t number) {
    if (trimmed(line).empty()) return;
    const Json event = line.size() > kLongestLine ? Json() : parse_shallow(without_infinities(line));
    if (!event.is_object() || text_at(event, "event").empty()) {
      if (broken_++ == 0) first_broken_ = number;
      return;
    }
    const std::string what = text_at(event, "event");
    if (what == "start") started(event);
    if (what == "report") reported(event);
    if (what == "evaluation") evaluated(event);
    if (what == "end") ended(event);
  }

  // lines_of: what their numbers count from, where that is not the file's begin.
  void note(std::string note, std::string lines_of) {
    record_.notes.push_back(std::move(note));
    lines_of_ = std::move(lines_of);
  }

  RunRecord finish() {
    if (broken_ > 0)
      record_.notes.push_back(fmt::format(
          "metrics.jsonl: {} skipped, the first is line {}{}: no JSON object with an \"event\", or nested too deeply",
          counted(static_cast<std::int64_t>(broken_), "broken line"), first_broken_, lines_of_));
    if (not_finite_ > 0)
      record_.notes.push_back(fmt::format("metrics.jsonl: {} left out that {} no finite number",
                                          counted(static_cast<std::int64_t>(not_finite_), "value"),
                                          not_finite_ == 1 ? "is" : "are"));
    if (ranks_ > kMostRanks)
      record_.notes.push_back(fmt::format("metrics.jsonl: the shares of time of {} of {} ranks were left out",
                                          ranks_ - kMostRanks, ranks_));
    for (auto* curve : record_.curves.all()) std::ranges::stable_sort(*curve, {}, &PlotPoint::x);
    for (auto shares : shares_) {
      double sum = 0;
      for (const double part : shares) sum += part;
      for (double& part : shares) part = sum > 0 ? part / sum : 0;
      record_.rank_shares.push_back(shares);
    }
    return std::move(record_);
  }

 private:
  std::optional<double> number(const Json& event, const char* key) {
    const auto found = event.find(key);
    if (found == event.end()) return std::nullopt;
    const double value = found->is_number() ? found->get<double>() : std::nan("");
    if (std::abs(value) < kLargest) return value;
    ++not_finite_;
    return std::nullopt;
  }

  void started(const Json& event) {
    record_.configuration = facts_of(event);
    record_.title = text_at(event, "model");
    const auto ranks = number(event, "ranks");
    const auto batch = number(event, "batch");
    if (ranks && batch)
      record_.title += fmt::format("{}{:g} {} x batch {:g}", record_.title.empty() ? "" : ", ", *ranks,
                                   *ranks == 1 ? "rank" : "ranks", *batch);
    record_.total_steps = number(event, "total_steps");
    record_.ended = record_.interrupted = false;
    // A run that was resumed goes on after this step.
    const double first = number(event, "first_step").value_or(0);
    for (auto* curve : record_.curves.all())
      std::erase_if(*curve, [first](const PlotPoint& point) { return point.x > first; });
    if (first > 0) record_.notes.push_back(fmt::format("resumed after step {:g}", first));
  }

  void add(std::vector<PlotPoint>& curve, double step, const Json& event, const char* key) {
    if (const auto value = number(event, key)) curve.push_back({step, *value});
  }

  void reported(const Json& event) {
    const auto step = number(event, "step");
    if (!step) return;
    RunCurves& all = record_.curves;
    add(all.loss, *step, event, "loss");
    add(all.accuracy, *step, event, "accuracy");
    add(all.rate, *step, event, "rate");
    add(all.images_per_s, *step, event, "images_per_s");
    // How many steps the first of the newest reports is of is not known.
    const double before = record_.step.value_or(lines_of_.empty() ? 0 : *step);
    const double steps = std::max(1.0, *step - before);
    record_.step = step;
    record_.images_per_s = number(event, "images_per_s");
    record_.images_per_s_uncertainty = number(event, "images_per_s_uncertainty");
    const auto shares = event.find("rank_shares");
    if (shares == event.end() || !shares->is_array()) return;
    ranks_ = std::max(ranks_, shares->size());
    for (std::size_t rank = 0; rank < std::min(shares->size(), kMostRanks); ++rank) {
      const Json& share = (*shares)[rank];
      if (!share.is_object()) continue;
      if (shares_.size() <= rank) shares_.resize(rank + 1);
      constexpr std::array kKeys = {"data", "compute", "peers", "optimizer"};
      for (std::size_t i = 0; i < kKeys.size(); ++i)
        shares_[rank][i] += steps * std::clamp(number(share, kKeys[i]).value_or(0), 0.0, 1.0);
    }
  }

  void evaluated(const Json& event) {
    const auto step = number(event, "step");
    if (!step) return;
    add(record_.curves.held_out_loss, *step, event, "loss");
    add(record_.curves.held_out_accuracy, *step, event, "accuracy");
  }

  void ended(const Json& event) {
    record_.ended = true;
    const auto interrupted = event.find("interrupted");
    record_.interrupted = interrupted != event.end() && *interrupted == true;
    if (const auto step = number(event, "step")) record_.step = step;
    record_.seconds = number(event, "seconds");
    if (const auto speed = number(event, "images_per_s")) record_.images_per_s = speed;
    if (const auto spread = number(event, "images_per_s_uncertainty")) record_.images_per_s_uncertainty = spread;
    record_.timeline = text_at(event, "timeline");
  }

  RunRecord record_;
  std::vector<std::array<double, 4>> shares_;
  std::size_t broken_ = 0;
  std::size_t first_broken_ = 0;
  std::size_t not_finite_ = 0;
  std::size_t ranks_ = 0;  // of which shares were told
  std::string lines_of_;
};

// An object from a file of the folder; null where there is none. A broken one is noted.
Json object_in(const std::string& path, std::size_t most, std::vector<std::string>& notes) {
  const auto text = read_start(path, most);
  if (!text) return {};
  Json json = parse_shallow(*text);
  if (json.is_object()) return json;
  notes.push_back(
      fmt::format("{} is no JSON object, or nested too deeply, and was skipped", fs::path(path).filename().string()));
  return {};
}

// Options belong to the configuration, where the start of the run does not tell them.
void take_environment(Json environment, RunRecord& record) {
  if (const auto options = environment.find("options"); options != environment.end() && options->is_object()) {
    for (auto& [name, value] : facts_of(*options)) {
      if (name == kLeftOutFacts ||
          std::ranges::find(record.configuration, name, &Facts::value_type::first) == record.configuration.end())
        record.configuration.emplace_back(name, value);
    }
    environment.erase("options");
  }
  record.environment = facts_of(environment);
}

// Of one machine, and of each host of several.
void add_findings(const Json& report, const std::string& host, std::vector<DoctorFinding>& findings) {
  if (!report.is_object()) return;
  const auto list = report.find("findings");
  if (list != report.end() && list->is_array()) {
    for (const Json& finding : *list) {
      if (!finding.is_object()) continue;
      findings.push_back({text_at(finding, "state"), host + text_at(finding, "group"), text_at(finding, "what"),
                          text_at(finding, "fix")});
    }
  }
  const auto hosts = report.find("hosts");
  if (hosts == report.end() || !hosts->is_array() || !host.empty()) return;
  for (const Json& each : *hosts)
    if (each.is_object()) {
      const std::string name = text_at(each, "host") + ": ";
      add_findings(each.contains("report") ? each["report"] : each, name, findings);
    }
}

// The most urgent ones stay.
void cut_findings(RunRecord& record) {
  const std::size_t all = record.doctor.size();
  if (all <= kMostFindings) return;
  std::ranges::stable_sort(record.doctor, {}, &DoctorFinding::weight);
  record.doctor.resize(kMostFindings);
  record.notes.push_back(fmt::format(
      "doctor.json: {} of {} findings were left out; problems and warnings are shown first", all - kMostFindings, all));
}

// Feeds the lines of metrics.jsonl. Of more than `most` bytes, of which `start` has the first ones: the first line,
// which tells the configuration, and the newest lines.
void take_lines(const std::string& path, std::string start, std::size_t most, RunReader& reader) {
  std::error_code error;
  const auto bytes = start.size() < most ? start.size() : fs::file_size(path, error);
  std::size_t number = 0;
  if (!error && bytes > most) {
    const std::string first = start.substr(0, start.find('\n'));
    std::ifstream file(path, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(bytes - most));
    file.read(start.data(), static_cast<std::streamsize>(start.size()));
    start.resize(static_cast<std::size_t>(file.gcount()));
    start.erase(0, std::min(start.find('\n'), start.size() - 1) + 1);
    reader.note(fmt::format("metrics.jsonl: of {}, the first line and the newest {} were read", human_bytes(bytes),
                            human_bytes(start.size())),
                " of the newest ones");
    reader.take(first, 1);
  }
  for (const std::string& line : split_text(start, '\n')) reader.take(line, ++number);
}

// The file that the run named, or another that is called like a timeline; only of the folder itself, because a run may
// be anybody's.
std::string timeline_in(const std::string& folder, const std::string& named) {
  std::error_code error;
  const fs::path own = fs::path(folder) / fs::path(named).filename();
  if (!named.empty() && fs::is_regular_file(own, error)) return own.string();
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("timeline") && name.ends_with(".json") && entry.is_regular_file(error))
      found.push_back(entry.path().string());
  }
  return found.empty() ? "" : *std::min_element(found.begin(), found.end());
}

}  // namespace

int DoctorFinding::weight() const { return state == "problem" ? 0 : state == "warning" ? 1 : state == "note" ? 2 : 3; }

Result<RunRecord> read_run(const std::string& folder, std::size_t most) {
  const std::string path = folder + "/metrics.jsonl";
  auto metrics = read_start(path, most);
  if (!metrics) {
    const int reason = errno;
    return failure(Code::kUnavailable, "cannot read {}: {}; `xoe train --run-dir {}` writes it", path,
                   errno_text(reason), folder);
  }
  RunReader reader;
  take_lines(path, std::move(*metrics), most, reader);
  RunRecord record = reader.finish();
  if (Json environment = object_in(folder + "/environment.json", most, record.notes); environment.is_object())
    take_environment(std::move(environment), record);
  add_findings(object_in(folder + "/doctor.json", most, record.notes), "", record.doctor);
  cut_findings(record);
  record.timeline = timeline_in(folder, record.timeline);
  return record;
}

}  // namespace xoe::pages

#include "measure/cli/measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text_file.h"
#include "core/base/utf8.h"

namespace xoe::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostMeasurements = 1000;
constexpr std::size_t kMostRuns = 100'000;
constexpr int kMostRanks = 1 << 24;
constexpr double kSmallest = 1e-15, kLargest = 1e15;  // what a table and a plot can show

std::string text_at(const Json& object, const char* name) { return printable_utf8(pages::text_at(object, name)); }

bool flag_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && *found == Json(true);
}

// The first thing that is wrong with it, or nothing.
std::string read_measurement(const Json& json, const std::string& title, Measurement& one) {
  if (!json.is_object()) return "a measurement that is no object";
  one.name = text_at(json, "name");
  if (one.name.empty()) return "a measurement without a name";
  one.series = text_at(json, "series");
  if (one.series.empty()) one.series = title;
  if (json.contains("quantity")) one.quantity = text_at(json, "quantity");
  if (one.quantity.empty()) return fmt::format("no quantity for {}", one.name);
  one.less_is_better = flag_at(json, "less_is_better");
  one.approximate = flag_at(json, "approximate");
  if (const auto ranks = json.find("ranks"); ranks != json.end()) {
    if (!ranks->is_number_integer() || *ranks < 1 || *ranks > kMostRanks)
      return fmt::format("bad ranks for {}", one.name);
    one.ranks = *ranks;
  }
  const auto runs = json.find("runs");
  if (runs == json.end() || !runs->is_array() || runs->empty() || runs->size() > kMostRuns)
    return fmt::format("no runs for {}", one.name);
  for (const Json& run : *runs) {
    if (!run.is_number() || !(run.get<double>() >= kSmallest && run.get<double>() <= kLargest))
      return fmt::format("a run of {} that is no positive number, or beyond what can be shown", one.name);
    one.runs.push_back(run);
  }
  if (const auto workload = json.find("workload"); workload != json.end()) {
    if (!workload->is_object()) return fmt::format("a bad workload for {}", one.name);
    for (const auto& [name, value] : workload->items())
      one.workload.emplace_back(
          printable_utf8(name),
          printable_utf8(value.is_string() ? value.get<std::string>()
                                           : value.dump(-1, ' ', false, Json::error_handler_t::replace)));
  }
  return {};
}

Result<MeasurementFile> read_scale(const Json& json, const std::string& path) {
  MeasurementFile file;
  const auto sizes = json.find("sizes");
  if (sizes == json.end() || !sizes->is_array() || sizes->empty() || sizes->size() > kMostMeasurements)
    return failure(Code::kInvalidArgument, "{}: it has no sizes", path);
  for (const Json& size : *sizes) {
    if (!size.is_object() || !size.contains("result"))
      return failure(Code::kInvalidArgument, "{}: a size has no result", path);
    XOE_ASSIGN(const TrainResult result, train_result_of(size["result"], path));
    Measurement one = measurement_of(fmt::format("{}: {}", path, result.ranks), result);
    one.series = path;
    file.measurements.push_back(std::move(one));
  }
  return file;
}

Result<MeasurementFile> read_list(const Json& json, const std::string& path) {
  MeasurementFile file = {.title = text_at(json, "title"),
                          .source = text_at(json, "source"),
                          .date = text_at(json, "date"),
                          .measurements = {}};
  const auto list = json.find("measurements");
  if (list == json.end() || !list->is_array() || list->empty() || list->size() > kMostMeasurements)
    return failure(Code::kInvalidArgument, "{}: it has no measurements", path);
  for (const Json& each : *list) {
    Measurement one;
    if (const std::string wrong = read_measurement(each, file.title.empty() ? path : file.title, one); !wrong.empty())
      return failure(Code::kInvalidArgument, "{}: it has {}", path, wrong);
    if (const auto environment = json.find("environment"); environment != json.end())
      one.environment = environment->dump(-1, ' ', false, Json::error_handler_t::replace);
    file.measurements.push_back(std::move(one));
  }
  return file;
}

}  // namespace

Measurement measurement_of(const std::string& name, const TrainResult& result) {
  return {.name = name,
          .series = name,
          .runs = result.speeds(),
          .ranks = result.ranks,
          .emulated_images_per_s = result.emulated_images_per_s,
          .workload = {{"model", result.model},
                       {"mode", result.mode},
                       {"device", result.device},
                       {"precision", result.precision},
                       {"optimizer", result.optimizer},
                       {"image size", result.image_size},
                       {"batch", fmt::to_string(result.batch)},
                       {"ranks", fmt::to_string(result.ranks)},
                       {"hosts", fmt::to_string(result.hosts)},
                       {"threads", fmt::to_string(result.threads)},
                       {"emulated accelerator", fmt::format("{:g}", result.emulated_images_per_s)},
                       {"processor", result.processor}},
          .parts = result.parts,
          .environment = result.environment};
}

std::vector<std::pair<std::string, pages::Facts>> environments_of(const std::vector<Measurement>& measurements) {
  std::vector<std::pair<std::string, std::vector<std::string>>> found;  // JSON, names
  for (const Measurement& one : measurements) {
    auto known = std::ranges::find(found, one.environment, &std::pair<std::string, std::vector<std::string>>::first);
    if (known == found.end()) known = found.insert(found.end(), {one.environment, {}});
    if (std::ranges::find(known->second, one.name) == known->second.end()) known->second.push_back(one.name);
  }
  std::vector<std::pair<std::string, pages::Facts>> all;
  all.reserve(found.size());
  for (const auto& [json, names] : found)
    all.emplace_back(fmt::format("Environment of {}", fmt::join(names, ", ")), pages::facts_of_json(json));
  return all;
}

Result<MeasurementFile> read_measurements(const std::string& path) {
  const auto text = read_text_file(path);
  if (!text) return failure(Code::kInvalidArgument, "{}: {}", path, text.error().message());
  return parse_measurements(*text, path);
}

Result<MeasurementFile> parse_measurements(std::string_view text, const std::string& path) {
  const Json json = pages::parse_shallow(text);
  const Json kind = json.is_object() ? json.value("benchmark", Json()) : Json();
  if (kind == Json("xoe bench scale")) return read_scale(json, path);
  if (kind == Json("measurements")) return read_list(json, path);
  XOE_ASSIGN(const TrainResult result, train_result_of(json, path));
  MeasurementFile file;
  file.measurements.push_back(measurement_of(path, result));
  return file;
}

}  // namespace xoe::bench

#include "data_inspect.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "data/example.h"
#include "data/record_file.h"

namespace xoe::tools {
namespace {

using data::Feature;
using data::FeatureKind;
using Json = nlohmann::ordered_json;

// All values of one feature over the file.
struct FeatureSummary {
  FeatureKind kind = FeatureKind::kEmpty;
  std::int64_t records = 0;
  std::int64_t values = 0;
  std::uint64_t bytes = 0;
  std::int64_t low = std::numeric_limits<std::int64_t>::max();
  std::int64_t high = std::numeric_limits<std::int64_t>::min();
};

struct Summary {
  std::int64_t records = 0;
  std::int64_t examples = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t data_bytes = 0;
  std::uint64_t smallest = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t largest = 0;
  std::map<std::string, FeatureSummary> features;
  Json first = Json::array();
};

bool printable(std::string_view text) {
  return text.size() <= 80 && std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

// One value in full, text as text; more or longer ones as a count.
Json show(const Feature& feature) {
  if (feature.count() != 1) return fmt::format("<{} values>", feature.count());
  if (!feature.integers.empty()) return feature.integers.front();
  if (!feature.floats.empty()) return feature.floats.front();
  const std::string_view bytes = feature.bytes.front();
  return printable(bytes) ? std::string(bytes) : fmt::format("<{} bytes>", bytes.size());
}

void add(Summary& summary, const Feature& feature) {
  FeatureSummary& total = summary.features[std::string(feature.name)];
  total.kind = feature.kind;
  ++total.records;
  total.values += static_cast<std::int64_t>(feature.count());
  for (const std::string_view bytes : feature.bytes) total.bytes += bytes.size();
  for (const std::int64_t value : feature.integers) {
    total.low = std::min(total.low, value);
    total.high = std::max(total.high, value);
  }
}

Result<Summary> read(const InspectOptions& options) {
  XOE_ASSIGN(const auto file, data::RecordFile::open(options.file));
  Summary summary;
  summary.file_bytes = file.bytes();
  std::string buffer;
  for (std::uint64_t offset = 0; offset < file.bytes();) {
    XOE_ASSIGN(const auto place, file.place_at(offset, summary.records));
    XOE_ASSIGN(const auto bytes, file.read(place, summary.records, buffer));
    const auto features = data::parse_example(bytes);
    Json shown = {{"record", summary.records}, {"offset", offset}, {"bytes", place.length}};
    if (features && !features->empty()) {
      ++summary.examples;
      for (const Feature& feature : *features) add(summary, feature);
      for (const Feature& feature : *features) shown["features"][std::string(feature.name)] = show(feature);
    }
    if (summary.records < options.records) summary.first.push_back(std::move(shown));
    summary.data_bytes += place.length;
    summary.smallest = std::min(summary.smallest, place.length);
    summary.largest = std::max(summary.largest, place.length);
    ++summary.records;
    offset = place.end();
  }
  if (summary.records == 0) summary.smallest = 0;
  return summary;
}

std::uint64_t mean_bytes(const Summary& summary) {
  return summary.records == 0 ? 0 : summary.data_bytes / static_cast<std::uint64_t>(summary.records);
}

void print_json(const InspectOptions& options, const Summary& summary) {
  Json out = {{"file", options.file},
              {"file_bytes", summary.file_bytes},
              {"records", summary.records},
              {"examples", summary.examples},
              {"record_bytes", {{"min", summary.smallest}, {"mean", mean_bytes(summary)}, {"max", summary.largest}}},
              {"features", Json::object()},
              {"first", summary.first}};
  for (const auto& [name, total] : summary.features) {
    Json feature = {{"kind", feature_kind_name(total.kind)}, {"records", total.records}, {"values", total.values}};
    if (total.kind == FeatureKind::kBytes) feature["bytes"] = total.bytes;
    if (total.kind == FeatureKind::kIntegers && total.values > 0) {
      feature["min"] = total.low;
      feature["max"] = total.high;
    }
    out["features"][name] = std::move(feature);
  }
  fmt::print("{}\n", out.dump(2, ' ', false, Json::error_handler_t::replace));
}

void print_text(const InspectOptions& options, const Summary& summary) {
  fmt::print("{}: {} records, {}; every CRC is right\n", options.file, summary.records,
             human_bytes(summary.file_bytes));
  fmt::print("record sizes: {} to {}, mean {} bytes\n", summary.smallest, summary.largest, mean_bytes(summary));
  fmt::print("{} of {} records are tf.Examples\n", summary.examples, summary.records);
  for (const auto& [name, total] : summary.features) {
    std::string extent;
    if (total.kind == FeatureKind::kBytes) extent = ", " + human_bytes(total.bytes);
    if (total.kind == FeatureKind::kIntegers && total.values > 0)
      extent = fmt::format(", {} to {}", total.low, total.high);
    fmt::print("  {:<24} {:<6} in {} records{}\n", name, feature_kind_name(total.kind), total.records, extent);
  }
  for (const Json& record : summary.first) {
    fmt::print("record {} at byte {}: {} bytes\n", record["record"].get<std::int64_t>(),
               record["offset"].get<std::uint64_t>(), record["bytes"].get<std::uint64_t>());
    if (!record.contains("features")) continue;
    for (const auto& [name, value] : record["features"].items())
      fmt::print("  {} = {}\n", name, value.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
}

}  // namespace

int inspect(const InspectOptions& options) {
  const auto summary = read(options);
  if (!summary) {
    if (options.json) fmt::print("{}\n", Json{{"error", summary.error().to_string()}}.dump());
    fmt::print(stderr, "xoe data inspect: {}\n", summary.error().message());
    return 1;
  }
  options.json ? print_json(options, *summary) : print_text(options, *summary);
  return 0;
}

}  // namespace xoe::tools

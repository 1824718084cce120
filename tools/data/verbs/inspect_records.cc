#include "tools/data/verbs/inspect_records.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "base/text.h"
#include "data/failure_in.h"
#include "data/records/example.h"
#include "data/records/record_stream.h"
#include "tools/data/verbs/inspect_json.h"
#include "tools/data/verbs/verb.h"

namespace xoe::tools {
namespace {

using data::FeatureKind;
using data::FeatureView;
using data::RecordExtent;

constexpr std::size_t kReadBytes = std::size_t{1} << 20;

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
  data::Compression compression = data::Compression::kNone;
  std::uint64_t data_bytes = 0;
  std::uint64_t smallest = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t largest = 0;
  std::map<std::string, FeatureSummary> features;
  Json first = Json::array();

  std::uint64_t mean_bytes() const { return records == 0 ? 0 : data_bytes / static_cast<std::uint64_t>(records); }
};

// Calls `visit` for the records up to the end, or until it returns false.
using Visit = std::function<bool(std::int64_t number, const RecordExtent& place, std::string_view data)>;
Status walk(const std::string& path, data::Compression compression, const Visit& visit) {
  XOE_ASSIGN(auto stream, data::RecordStream::open(path, compression, kReadBytes));
  for (std::int64_t number = 0; !stopped(); ++number) {
    const std::uint64_t offset = stream.offset();
    const auto fail = [&](const Error& error) {
      return data::failure_in(data::record_name(path, number, offset), error);
    };
    const auto place = stream.locate();
    if (!place) return fail(place.error());
    if (!*place) return {};
    const auto bytes = stream.take(**place);
    if (!bytes) return fail(bytes.error());
    if (!visit(number, **place, *bytes)) return {};
  }
  return failure(Code::kUnavailable, "{}: stopped", path);
}

// The features of an example, or the context and the steps of a sequence.
Result<Json> show_features(std::string_view bytes, bool sequence, Json (*show)(const FeatureView&)) {
  Json out = Json::object();
  const auto add = [show](Json& to, std::span<const FeatureView> features) {
    for (const FeatureView& feature : features) to[std::string(feature.name())] = show(feature);
  };
  if (!sequence) {
    XOE_ASSIGN(const auto example, data::ExampleView::parse(bytes));
    add(out, example.features());
    return out;
  }
  XOE_ASSIGN(const auto example, data::SequenceExampleView::parse(bytes));
  out = {{"context", Json::object()}, {"lists", Json::object()}};
  add(out["context"], example.context().features());
  for (const data::FeatureListView& list : example.lists()) {
    Json& steps = out["lists"][std::string(list.name)];
    steps = {{"steps", list.steps.size()}, {"first", Json::array()}};
    constexpr std::size_t kMaxSteps = 5;
    for (std::size_t i = 0; i < std::min(list.steps.size(), kMaxSteps); ++i)
      steps["first"].push_back(show(list.steps[i]));
  }
  return out;
}

void add(Summary& summary, const FeatureView& feature) {
  FeatureSummary& total = summary.features[std::string(feature.name())];
  total.kind = feature.kind();
  ++total.records;
  total.values += static_cast<std::int64_t>(feature.size());
  std::vector<std::string_view> texts;
  feature.append_to(texts);
  for (const std::string_view text : texts) total.bytes += text.size();
  std::vector<std::int64_t> integers;
  feature.append_to(integers);
  for (const std::int64_t value : integers) {
    total.low = std::min(total.low, value);
    total.high = std::max(total.high, value);
  }
}

void add(Summary& summary, const InspectRequest& request, const RecordExtent& place, std::string_view bytes) {
  // Other bytes may parse as an Example without features.
  const auto features = show_features(bytes, request.sequence, show_short);
  const bool example = features && !features->empty();
  if (example) ++summary.examples;
  if (const auto view = data::ExampleView::parse(bytes); example && view)
    for (const FeatureView& feature : view->features()) add(summary, feature);
  if (summary.records < request.records) {
    Json shown = {{"record", summary.records}, {"offset", place.offset}, {"bytes", place.length}};
    if (example) shown["features"] = *features;
    summary.first.push_back(std::move(shown));
  }
  summary.data_bytes += place.length;
  summary.smallest = std::min(summary.smallest, place.length);
  summary.largest = std::max(summary.largest, place.length);
  ++summary.records;
}

Result<Summary> read(const InspectRequest& request) {
  Summary summary;
  XOE_ASSIGN(data::OpenFile opened, data::OpenFile::open(request.path));
  summary.file_bytes = opened.bytes;
  const auto compression = data::detect_compression(std::make_shared<const data::OpenFile>(std::move(opened)));
  if (!compression) return data::failure_in(request.path, compression.error());
  summary.compression = *compression;
  XOE_TRY(walk(request.path, summary.compression, [&](std::int64_t, const RecordExtent& place, std::string_view bytes) {
    add(summary, request, place, bytes);
    return true;
  }));
  if (summary.records == 0) summary.smallest = 0;
  return summary;
}

void print_json(const InspectRequest& request, const Summary& summary) {
  Json out = {{"file", request.path},
              {"file_bytes", summary.file_bytes},
              {"compression", compression_name(summary.compression)},
              {"records", summary.records},
              {"examples", summary.examples},
              {"record_bytes", {{"min", summary.smallest}, {"mean", summary.mean_bytes()}, {"max", summary.largest}}},
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
  fmt::print("{}\n", to_text(out, 2));
}

void print_text(const InspectRequest& request, const Summary& summary) {
  fmt::print("{}: {}, {}, {}; all CRCs are right\n", request.path, counted(summary.records, "record"),
             human_bytes(summary.file_bytes), compression_name(summary.compression));
  fmt::print("record sizes: {} to {}, mean {} bytes\n", summary.smallest, summary.largest, summary.mean_bytes());
  fmt::print("{} of {} records are {}\n", summary.examples, summary.records,
             request.sequence ? "tf.SequenceExamples; of their contexts:" : "tf.Examples");
  for (const auto& [name, total] : summary.features) {
    std::string range;
    if (total.kind == FeatureKind::kBytes) range = ", " + human_bytes(total.bytes);
    if (total.kind == FeatureKind::kIntegers && total.values > 0)
      range = fmt::format(", {} to {}", total.low, total.high);
    fmt::print("  {:<24} {:<6} in {}{}\n", name, feature_kind_name(total.kind), counted(total.records, "record"),
               range);
  }
  for (const Json& record : summary.first) {
    fmt::print("record {} at byte {}: {} bytes\n", record["record"].get<std::int64_t>(),
               record["offset"].get<std::uint64_t>(), record["bytes"].get<std::uint64_t>());
    if (!record.contains("features")) continue;
    for (const auto& [name, value] : record["features"].items()) fmt::print("  {} = {}\n", name, to_text(value));
  }
}

}  // namespace

Status inspect_records(const InspectRequest& request) {
  XOE_ASSIGN(const Summary summary, read(request));
  request.json ? print_json(request, summary) : print_text(request, summary);
  return {};
}

Status inspect_one_record(const InspectRequest& request) {
  std::optional<Json> shown;
  std::int64_t records = 0;
  XOE_TRY(walk(request.path, data::Compression::kAuto,
               [&](std::int64_t number, const RecordExtent& place, std::string_view bytes) {
                 records = number + 1;
                 if (number < *request.record) return true;
                 shown = {{"record", number}, {"offset", place.offset}, {"bytes", place.length}};
                 const auto features = show_features(bytes, request.sequence, show_long);
                 if (features)
                   (*shown)["features"] = *features;
                 else
                   (*shown)["problem"] = features.error().message();
                 if (const auto image = data::parse_image_labels(bytes))
                   (*shown)["image"] = show_image({.bytes = image->encoded, .targets = {}});
                 return false;
               }));
  if (!shown)
    return failure(Code::kInvalidArgument, "{}: no record {}; it has {}", request.path, *request.record, records);
  fmt::print("{}\n", to_text(*shown, request.json ? -1 : 2));
  return {};
}

}  // namespace xoe::tools

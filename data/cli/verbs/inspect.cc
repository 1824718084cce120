// xoe data inspect: shows the content of a file or a data set.
#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "core/base/utf8.h"
#include "data/cli/image_facts.h"
#include "data/cli/verbs/verbs.h"
#include "data/failure_in.h"
#include "data/files/listing.h"
#include "data/records/compression.h"
#include "data/records/example.h"
#include "data/records/record_stream.h"
#include "data/source/formats.h"

namespace xoe::tools {
namespace {

using data::FeatureKind;
using data::FeatureView;
using data::RecordExtent;
using data::SourceFormat;
using Json = nlohmann::ordered_json;

struct InspectRequest {
  std::string path;
  std::int64_t records = 3;            // shown one by one
  std::optional<std::int64_t> record;  // or this one in full
  data::ImageKeys keys;
  std::int64_t max_bad = 0;
  bool sequence = false;  // as tf.SequenceExample
  bool json = false;
};

// ---- Features and images as JSON

constexpr std::size_t kMaxValues = 100;

Json show_bytes(std::string_view bytes, std::size_t most) {
  const bool printable =
      bytes.size() <= most && std::all_of(bytes.begin(), bytes.end(), [](char c) { return c >= ' ' && c <= '~'; });
  return printable ? std::string(bytes) : fmt::format("<{}>", counted(std::ssize(bytes), "byte"));
}

template <class T, class Show>
Json list(const FeatureView& feature, const Show& show) {
  Json out = Json::array();
  std::vector<T> values;
  feature.append_to(values);
  for (std::size_t i = 0; i < std::min(values.size(), kMaxValues); ++i) out.push_back(show(values[i]));
  if (values.size() > kMaxValues) out.push_back(fmt::format("<{} more>", values.size() - kMaxValues));
  return out;
}

// One value in full, text as text; other values as their count or size.
Json show_short(const FeatureView& feature) {
  if (feature.size() != 1) return fmt::format("<{}>", counted(static_cast<std::int64_t>(feature.size()), "value"));
  if (const auto value = feature.only_integer()) return *value;
  if (const auto value = feature.only_float()) return *value;
  return show_bytes(feature.only_bytes().value_or(""), 80);
}

// Up to 100 values, long or binary ones as their size.
Json show_long(const FeatureView& feature) {
  constexpr std::size_t kMaxText = 1000;
  switch (feature.kind()) {
    case FeatureKind::kIntegers: return list<std::int64_t>(feature, [](std::int64_t value) { return Json(value); });
    case FeatureKind::kFloats: return list<float>(feature, [](float value) { return Json(value); });
    case FeatureKind::kBytes:
      return list<std::string_view>(feature, [](std::string_view value) { return show_bytes(value, kMaxText); });
    case FeatureKind::kEmpty: break;
  }
  return Json::array();
}

// Kind, size and colour of an image, or why it has none.
Json show_image(const data::ImageRecord& record) {
  data::Codecs codecs;
  const auto facts = data::read_image_facts(record, codecs);
  if (!facts) return {{"bytes", record.bytes.size()}, {"problem", facts.error().message()}};
  return {{"kind", facts->kind},         {"width", facts->width}, {"height", facts->height},
          {"channels", facts->channels}, {"bits", facts->bits},   {"colour", facts->colour()},
          {"bytes", record.bytes.size()}};
}

std::string to_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// ---- One TFRecord file, plain or compressed

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
  data::BadRecords bad;

  std::uint64_t mean_bytes() const { return records == 0 ? 0 : data_bytes / static_cast<std::uint64_t>(records); }
};

// Calls `visit` for the records up to the end, or until it returns false. Leaves out request.max_bad that are damaged,
// of which `bad` is told.
using Visit = std::function<bool(std::int64_t number, const RecordExtent& place, std::string_view data)>;
Status walk(const InspectRequest& request, data::Compression compression, data::BadRecords& bad, const Visit& visit) {
  const std::string& path = request.path;
  XOE_ASSIGN(auto stream, data::RecordStream::open(path, compression, kReadBytes));
  for (std::int64_t number = 0; !stopped(); ++number) {
    const std::uint64_t offset = stream.offset();
    const auto place = stream.locate();
    if (place && !*place) return {};
    const auto bytes = place ? stream.take(**place) : Result<std::string_view>(failure(place.error()));
    if (bytes) {
      if (!visit(number, **place, *bytes)) return {};
      continue;
    }
    if (bad.count() == request.max_bad)
      return failure(bytes.error().code(), "{}: {}; go on behind it by --max-bad {}",
                     data::record_name(path, number, offset), bytes.error().message(), bad.count() + 1);
    if (!stream.broken() && stream.offset() == offset) (void)stream.resynchronise();  // a failure shows as broken()
    bad.add(fmt::format("{}: {}{}", data::record_name(path, number, offset), bytes.error().message(),
                        stream.broken() ? "; the rest of the file cannot be read" : ""));
    if (stream.broken()) return {};
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

void add(Summary& summary, const InspectRequest& request, std::int64_t number, const RecordExtent& place,
         std::string_view bytes) {
  // Other bytes may parse as an Example without features.
  const auto features = show_features(bytes, request.sequence, show_short);
  const bool example = features && !features->empty();
  if (example) ++summary.examples;
  if (const auto view = data::ExampleView::parse(bytes); example && view)
    for (const FeatureView& feature : view->features()) add(summary, feature);
  if (summary.records < request.records) {
    Json shown = {{"record", number}, {"offset", place.offset}, {"bytes", place.length}};
    if (example) shown["features"] = *features;
    summary.first.push_back(std::move(shown));
  }
  summary.data_bytes += place.length;
  summary.smallest = std::min(summary.smallest, place.length);
  summary.largest = std::max(summary.largest, place.length);
  ++summary.records;
}

Status read(const InspectRequest& request, Summary& summary) {
  XOE_ASSIGN(data::OpenFile opened, data::OpenFile::open(request.path));
  summary.file_bytes = opened.bytes;
  const auto compression = data::detect_compression(std::make_shared<const data::OpenFile>(std::move(opened)));
  if (!compression) return data::failure_in(request.path, compression.error());
  summary.compression = *compression;
  XOE_TRY(walk(request, summary.compression, summary.bad,
               [&](std::int64_t number, const RecordExtent& place, std::string_view bytes) {
                 add(summary, request, number, place, bytes);
                 return true;
               }));
  if (summary.records == 0) summary.smallest = 0;
  return {};
}

void print_json(const InspectRequest& request, const Summary& summary) {
  Json out = {{"file", request.path},
              {"file_bytes", summary.file_bytes},
              {"compression", compression_name(summary.compression)},
              {"records", summary.records},
              {"examples", summary.examples},
              {"record_bytes", {{"min", summary.smallest}, {"mean", summary.mean_bytes()}, {"max", summary.largest}}},
              {"bad", summary.bad.count()},
              {"bad_records", summary.bad.messages()},
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
  fmt::print("{}\n", json_text(out, 2));
}

void print_text(const InspectRequest& request, const Summary& summary) {
  fmt::print("{}: {}, {}, {}{}\n", request.path, counted(summary.records, "record"), human_bytes(summary.file_bytes),
             compression_name(summary.compression), summary.bad.count() == 0 ? "; all CRCs are right" : "");
  print_left_out(counted(summary.bad.count(), "bad record"), summary.bad.count(), summary.bad.messages());
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
    fmt::print("record {} at byte {}: {}\n", record["record"].get<std::int64_t>(),
               record["offset"].get<std::uint64_t>(), counted(record["bytes"].get<std::int64_t>(), "byte"));
    if (!record.contains("features")) continue;
    for (const auto& [name, value] : record["features"].items()) fmt::print("  {} = {}\n", name, to_text(value));
  }
}

// Reads and summarises a whole record file.
Status inspect_records(const InspectRequest& request) {
  Summary summary;
  XOE_TRY(read(request, summary));
  request.json ? print_json(request, summary) : print_text(request, summary);
  return {};
}

Status inspect_one_record(const InspectRequest& request) {
  std::optional<Json> shown;
  std::int64_t records = 0;
  data::BadRecords bad;
  XOE_TRY(walk(request, data::Compression::kAuto, bad,
               [&](std::int64_t number, const RecordExtent& place, std::string_view bytes) {
                 records = number + 1;
                 if (number < *request.record) return true;
                 if (number > *request.record) return false;
                 shown = {{"record", number}, {"offset", place.offset}, {"bytes", place.length}};
                 const auto features = show_features(bytes, request.sequence, show_long);
                 if (features)
                   (*shown)["features"] = *features;
                 else
                   (*shown)["problem"] = features.error().message();
                 if (const auto image = data::parse_image_labels(bytes, request.keys))
                   (*shown)["image"] = show_image({.bytes = image->encoded, .targets = {}});
                 return false;
               }));
  if (!shown && bad.count() > 0) return failure(Code::kDataLoss, "{}", bad.text());
  if (!shown)
    return failure(Code::kInvalidArgument, "{}: no record {}; it has {}", request.path, *request.record, records);
  fmt::print("{}\n", json_text(*shown, request.json ? -1 : 2));
  return {};
}

// ---- A data set of any format

// One image of any format.
Json show(const data::ImageSource& source, std::int64_t record, std::string& buffer) {
  Json out = {{"record", record}, {"name", source.name(record)}};
  const auto read = source.read(record, buffer);
  if (!read) {
    out["problem"] = read.error().message();
    return out;
  }
  const auto names = source.class_names();
  const auto name_of = [&names](std::int64_t label) {
    return label >= 0 && label < std::ssize(names) ? Json(names[static_cast<std::size_t>(label)]) : Json(label);
  };
  if (source.multi_label()) {
    out["classes"] = Json::array();
    for (std::size_t i = 0; i < read->targets.size(); ++i)
      if (read->targets[i] != 0) out["classes"].push_back(name_of(static_cast<std::int64_t>(i)));
  } else {
    out["label"] = read->label;
    const auto number = data::class_of(source, read->label, source.classes());
    if (number)
      out["class"] = name_of(*number);
    else
      out["problem"] = number.error().message();
  }
  out["image"] = show_image(*read);
  return out;
}

// TFRecords state neither the number of classes nor whether an image can have several: reads some.
Result<data::SourcePtr> open_source(data::ImagePipelineOptions options, data::LeftOut& left_out) {
  if (options.format == SourceFormat::kTfRecord && !options.multi_label) {
    XOE_ASSIGN(options.multi_label, data::lists_labels(options));
  }
  auto source = data::open_image_source(options, &left_out);
  if (source || !options.multi_label || source.error().code() != Code::kInvalidArgument) return source;
  options.classes = data::kMaxMultiLabelClasses;  // labels have only numbers
  return data::open_image_source(options, &left_out);
}

Status inspect_source(const InspectRequest& request, const data::ImagePipelineOptions& options) {
  data::LeftOut left_out;
  XOE_ASSIGN(const auto source, open_source(options, left_out));
  const int classes = source->classes() == data::kMaxMultiLabelClasses ? 0 : source->classes();
  std::string buffer;
  if (request.record && (*request.record < 0 || *request.record >= source->records()))
    return failure(Code::kInvalidArgument, "{}: no image {}; it has {}", request.path, *request.record,
                   source->records());
  if (request.record) {
    fmt::print("{}\n", json_text(show(*source, *request.record, buffer), request.json ? -1 : 2));
    return {};
  }
  Json first = Json::array();
  for (std::int64_t record = 0; record < std::min(request.records, source->records()); ++record)
    first.push_back(show(*source, record, buffer));
  const std::string_view format = source_format_name(options.format);
  if (request.json) {
    const Json out = {{"path", request.path},
                      {"format", format},
                      {"records", source->records()},
                      {"groups", source->groups()},
                      {"classes", classes},
                      {"class_names", source->class_names()},
                      {"multi_label", source->multi_label()},
                      {"missing", left_out.missing.count()},
                      {"missing_parts", left_out.missing.messages()},
                      {"bad", left_out.bad.count()},
                      {"bad_images", left_out.bad.messages()},
                      {"first", first}};
    fmt::print("{}\n", json_text(out, 2));
    return {};
  }
  fmt::print("{}: {}, {}{}{}\n", request.path, format, counted(source->records(), "image"),
             classes > 0 ? " of " + counted(classes, "class") : "", source->multi_label() ? ", several per image" : "");
  print_left_out(counted(left_out.missing.count(), "missing part"), left_out.missing.count(),
                 left_out.missing.messages());
  print_left_out(counted(left_out.bad.count(), "bad image"), left_out.bad.count(), left_out.bad.messages());
  for (const Json& one : first) {
    fmt::print("{}\n", printable_utf8(one["name"].get<std::string>()));
    for (const auto& [name, value] : one.items())
      if (name != "name" && name != "record") fmt::print("  {} = {}\n", name, to_text(value));
  }
  return {};
}

Result<int> inspect(InspectRequest request, data::ImagePipelineOptions options) {
  catch_signals();
  options.directory = request.path;
  data::resolve_bad_limit(options);
  request.keys = {options.image_key, options.label_key};
  request.max_bad = options.max_bad;
  XOE_ASSIGN(options.format, data::detect_source_format(options));
  const bool record_file = options.format == SourceFormat::kTfRecord && !data::is_directory(request.path);
  XOE_TRY(!record_file     ? inspect_source(request, options)
          : request.record ? inspect_one_record(request)
                           : inspect_records(request));
  return 0;
}

}  // namespace

void add_inspect(CLI::App& app, int& code) {
  CLI::App* verb = app.add_subcommand("inspect", "say what is in a record file or a data set, and check the file");
  const auto request = std::make_shared<InspectRequest>();
  const auto options = std::make_shared<data::ImagePipelineOptions>();
  verb->add_option("PATH", request->path, "a record file, or a file or directory of any format")->required();
  add_setting(*verb, "--records", request->records, "how many to show one by one");
  verb->add_option("--record", request->record, "show this one in full, counted from 0")->check(CLI::NonNegativeNumber);
  verb->add_flag("--sequence", request->sequence, "the records are tf.SequenceExamples");
  add_split_option(*verb, options->training);
  add_missing_option(*verb, *options);
  add_max_bad_option(*verb, *options);
  verb->add_flag("--multi-label", options->multi_label,
                 "a directory's TFRecords can be of several classes (default: if one of the first 100 is)");
  add_label_options(*verb, *options);
  verb->add_flag("--json", request->json, "print JSON");
  verb->footer(
      "Examples:\n  xoe data inspect data/train-00000-of-00008\n"
      "  xoe data inspect data/train-00000-of-00008 --record 17\n  xoe data inspect photos");
  verb->callback([request, options, &code] { code = finish("inspect", inspect(*request, *options), request->json); });
}

}  // namespace xoe::tools

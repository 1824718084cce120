// Reads and writes record files for the test against TensorFlow.
//   record_tool copy IN OUT plain|gzip|zlib     every record as it is
//   record_tool examples IN                     a line for each tf.Example's features, sorted
//   record_tool sequences IN                    the same for tf.SequenceExamples
//   record_tool rebuild IN OUT                  every tf.Example taken apart and built again
//   record_tool resequence IN OUT               the same for tf.SequenceExamples
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <functional>

#include "core/base/error.h"
#include "xoe/data/example.h"
#include "xoe/data/record_writer.h"
#include "xoe/data/records.h"

namespace {

using namespace xoe;
using namespace xoe::data;

template <class T>
std::vector<T> values(const FeatureView& feature) {
  std::vector<T> found;
  feature.append_to(found);
  return found;
}

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<std::uint8_t>(byte));
  return text;
}

// "bytes:6162,;" and so on; of floats the bits.
std::string show(const FeatureView& feature) {
  std::string text = std::string(feature_kind_name(feature.kind())) + ":";
  for (const auto& value : values<std::string_view>(feature)) text += hex(value) + ",";
  for (const float value : values<float>(feature)) text += fmt::format("{:08x},", std::bit_cast<std::uint32_t>(value));
  for (const auto value : values<std::int64_t>(feature)) text += fmt::format("{},", value);
  return text + ";";
}
std::string show(const ExampleView& example) {
  std::vector<std::string> parts;
  for (const FeatureView& feature : example.features()) parts.push_back(hex(feature.name()) + "=" + show(feature));
  std::sort(parts.begin(), parts.end());
  return fmt::format("{}", fmt::join(parts, " "));
}
std::string show(const SequenceExampleView& example) {
  std::vector<std::string> parts;
  for (const FeatureListView& list : example.lists()) {
    parts.push_back(hex(list.name) + "=[");
    for (const FeatureView& step : list.steps) parts.back() += show(step);
    parts.back() += "]";
  }
  std::sort(parts.begin(), parts.end());
  return show(example.context()) + " | " + fmt::format("{}", fmt::join(parts, " "));
}

void add(FeaturesBuilder& to, const FeatureView& feature) {
  const std::string_view name = feature.name();
  if (feature.kind() == FeatureKind::kBytes) to.add_bytes(name, values<std::string_view>(feature));
  if (feature.kind() == FeatureKind::kFloats) to.add_floats(name, values<float>(feature));
  if (feature.kind() == FeatureKind::kIntegers) to.add_integers(name, values<std::int64_t>(feature));
}
void add(SequenceExampleBuilder& to, std::string_view list, const FeatureView& step) {
  if (step.kind() == FeatureKind::kBytes) to.add_bytes(list, values<std::string_view>(step));
  if (step.kind() == FeatureKind::kFloats) to.add_floats(list, values<float>(step));
  if (step.kind() == FeatureKind::kIntegers) to.add_integers(list, values<std::int64_t>(step));
}

Result<std::string> rebuilt(std::string_view data) {
  XOE_ASSIGN(const auto example, ExampleView::parse(data));
  FeaturesBuilder builder;
  for (const FeatureView& feature : example.features()) add(builder, feature);
  return builder.to_example();
}
Result<std::string> resequenced(std::string_view data) {
  XOE_ASSIGN(const auto example, SequenceExampleView::parse(data));
  SequenceExampleBuilder builder;
  for (const FeatureView& feature : example.context().features()) add(builder.context(), feature);
  for (const FeatureListView& list : example.lists())
    for (const FeatureView& step : list.steps) add(builder, list.name, step);
  return builder.to_example();
}

Status for_each_record(const std::string& path, const std::function<Status(std::string_view)>& visit) {
  XOE_ASSIGN(const auto records, read_records(path)->iterate(0));
  for (;;) {
    XOE_ASSIGN(const auto record, records->next());
    if (!record) return {};
    XOE_TRY(visit(record->data));
  }
}

Status convert(const std::string& in, const std::string& out, Compression compression,
               const std::function<Result<std::string>(std::string_view)>& change) {
  XOE_ASSIGN(RecordWriter writer, RecordWriter::create(out, compression));
  XOE_TRY(for_each_record(in, [&](std::string_view data) -> Status {
    XOE_ASSIGN(const std::string changed, change(data));
    return writer.write(changed);
  }));
  return writer.finish();
}

template <class View>
Status print(const std::string& in) {
  return for_each_record(in, [](std::string_view data) -> Status {
    XOE_ASSIGN(const auto view, View::parse(data));
    fmt::print("{}\n", show(view));
    return {};
  });
}

Status run(const std::vector<std::string>& arguments) {
  const std::string& verb = arguments[0];
  if (verb == "examples" && arguments.size() == 2) return print<ExampleView>(arguments[1]);
  if (verb == "sequences" && arguments.size() == 2) return print<SequenceExampleView>(arguments[1]);
  if (verb == "rebuild" && arguments.size() == 3)
    return convert(arguments[1], arguments[2], Compression::kNone, rebuilt);
  if (verb == "resequence" && arguments.size() == 3)
    return convert(arguments[1], arguments[2], Compression::kNone, resequenced);
  for (const Compression compression : {Compression::kNone, Compression::kGzip, Compression::kZlib})
    if (verb == "copy" && arguments.size() == 4 && arguments[3] == compression_name(compression))
      return convert(arguments[1], arguments[2], compression,
                     [](std::string_view data) -> Result<std::string> { return std::string(data); });
  return failure(Code::kInvalidArgument, "usage: record_tool copy|examples|sequences|rebuild|resequence IN ...");
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const Status done = run(arguments.empty() ? std::vector<std::string>{""} : arguments);
  if (!done) fmt::print(stderr, "error: {}\n", done.error().message());
  return done ? 0 : 1;
}

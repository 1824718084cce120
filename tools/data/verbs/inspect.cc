// xoe data inspect: shows the content of a file or a data set.
#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/text.h"
#include "data/files/listing.h"
#include "data/source/formats.h"
#include "tools/data/verbs/inspect_json.h"
#include "tools/data/verbs/inspect_records.h"
#include "tools/data/verbs/verb.h"
#include "tools/data/verbs/verbs.h"

namespace xoe::tools {
namespace {

using data::SourceFormat;

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
    out["class"] = name_of(read->label - source.label_offset());
  }
  out["image"] = show_image(*read);
  return out;
}

// TFRecords state neither the number of classes nor whether an image can have several: reads some.
Result<data::SourcePtr> open_source(data::ImagePipelineOptions options) {
  if (options.format == SourceFormat::kTfRecord && !options.multi_label) {
    XOE_ASSIGN(options.multi_label, data::lists_labels(options));
  }
  auto source = data::open_image_source(options);
  if (source || !options.multi_label || source.error().code() != Code::kInvalidArgument) return source;
  options.classes = data::kMaxMultiLabelClasses;  // labels have only numbers
  return data::open_image_source(options);
}

Status inspect_source(const InspectRequest& request, const data::ImagePipelineOptions& options) {
  XOE_ASSIGN(const auto source, open_source(options));
  const int classes = source->classes() == data::kMaxMultiLabelClasses ? 0 : source->classes();
  std::string buffer;
  if (request.record && (*request.record < 0 || *request.record >= source->records()))
    return failure(Code::kInvalidArgument, "{}: no image {}; it has {}", request.path, *request.record,
                   source->records());
  if (request.record) {
    fmt::print("{}\n", to_text(show(*source, *request.record, buffer), request.json ? -1 : 2));
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
                      {"first", first}};
    fmt::print("{}\n", to_text(out, 2));
    return {};
  }
  fmt::print("{}: {}, {}{}{}\n", request.path, format, counted(source->records(), "image"),
             classes > 0 ? fmt::format(" of {} classes", classes) : "",
             source->multi_label() ? ", several per image" : "");
  for (const Json& one : first) {
    fmt::print("{}\n", one["name"].get<std::string>());
    for (const auto& [name, value] : one.items())
      if (name != "name" && name != "record") fmt::print("  {} = {}\n", name, to_text(value));
  }
  return {};
}

int inspect(const InspectRequest& request, data::ImagePipelineOptions options) {
  catch_signals();
  options.directory = request.path;
  const auto format = data::detect_source_format(options);
  if (!format) return report_failure("inspect", format.error(), request.json);
  options.format = *format;
  const bool record_file = *format == SourceFormat::kTfRecord && !data::is_directory(request.path);
  const Status done = !record_file     ? inspect_source(request, options)
                      : request.record ? inspect_one_record(request)
                                       : inspect_records(request);
  return done ? exit_code(0) : report_failure("inspect", done.error(), request.json);
}

}  // namespace

void add_inspect(CLI::App& app, int& code) {
  CLI::App* verb = app.add_subcommand("inspect", "say what is in a record file or a data set, and check the file");
  const auto request = std::make_shared<InspectRequest>();
  const auto options = std::make_shared<data::ImagePipelineOptions>();
  verb->add_option("PATH", request->path, "a record file, or a file or directory of any format")->required();
  verb->add_option("--records", request->records, "how many to show one by one")->capture_default_str();
  verb->add_option("--record", request->record, "show this one in full, counted from 0")->check(CLI::NonNegativeNumber);
  verb->add_flag("--sequence", request->sequence, "the records are tf.SequenceExamples");
  add_split_option(*verb, options->training);
  verb->add_flag("--multi-label", options->multi_label,
                 "a directory's TFRecords can be of several classes (default: if one of the first 100 is)");
  verb->add_flag("--json", request->json, "print JSON");
  verb->footer(
      "Examples:\n  xoe data inspect data/train-00000-of-00008\n"
      "  xoe data inspect data/train-00000-of-00008 --record 17\n  xoe data inspect photos");
  verb->callback([request, options, &code] { code = inspect(*request, *options); });
}

}  // namespace xoe::tools

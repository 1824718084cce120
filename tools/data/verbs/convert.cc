// xoe data convert: writes a data set of images anew.
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "tools/data/convert/convert.h"
#include "tools/data/verbs/progress_line.h"
#include "tools/data/verbs/verb.h"
#include "tools/data/verbs/verbs.h"

namespace xoe::tools {
namespace {

using data::ConvertOptions;
using data::ConvertReport;
using Json = nlohmann::ordered_json;

struct ConvertRequest {
  ConvertOptions options;
  std::uint64_t seed = 0;
  bool json = false;
};

void print(const ConvertRequest& request, const ConvertReport& report) {
  const double speed = report.seconds > 0 ? static_cast<double>(report.images) / report.seconds : 0;
  const std::string& directory = request.options.directory;
  if (request.json) {
    const Json out = {{"directory", directory},     {"format", convert_to_name(request.options.to)},
                      {"images", report.images},    {"skipped", report.skipped},
                      {"bad", report.bad},          {"shards", report.shards},
                      {"kept_shards", report.kept}, {"bytes", report.bytes},
                      {"seconds", report.seconds},  {"images_per_s", speed}};
    fmt::print("{}\n", out.dump(-1, ' ', false, Json::error_handler_t::replace));
    return;
  }
  const bool folder = request.options.to == data::ConvertTo::kFolder;
  fmt::print("{}: {} images, {}, {}, {:.1f} s ({:.0f} images/s)\n", directory, report.images,
             folder ? "a file each" : fmt::format("in {} files", report.shards), human_bytes(report.bytes),
             report.seconds, speed);
  if (report.kept > 0) fmt::print("{} of {} parts were there from before\n", report.kept, report.shards);
  if (report.skipped > 0) fmt::print("{} bad images left out:\n", report.skipped);
  for (const std::string& bad : report.bad) fmt::print("  {}\n", bad);
}

int convert(const ConvertRequest& request) {
  catch_signals();
  const auto report = [&request] {
    ProgressLine line("xoe data convert", !request.json);
    return data::convert(request.options, [&line](std::int64_t done, std::int64_t total) {
      line.show(done, total, "images");
      return !stopped();
    });
  }();
  if (!report) return fail("convert", report.error(), request.json);
  print(request, *report);
  return end(0);
}

void add_options(CLI::App& verb, ConvertRequest& request) {
  ConvertOptions& options = request.options;
  const std::map<std::string, data::ConvertTo> formats = {
      {"tfrecord", data::ConvertTo::kTfRecord}, {"tar", data::ConvertTo::kTar}, {"folder", data::ConvertTo::kFolder}};
  const std::map<std::string, data::Compression> compressions = {
      {"none", data::Compression::kNone}, {"gzip", data::Compression::kGzip}, {"zlib", data::Compression::kZlib}};
  verb.add_option("--to", options.to, "tfrecord, tar or folder (default: tfrecord)")
      ->transform(CLI::Transformer(formats))
      ->option_text("FORMAT");
  add_split_option(verb, options.from.training);
  verb.add_option("--shards", options.shards, "files; 0: of about 128 MiB each")->capture_default_str();
  verb.add_option("--compression", options.compression, "of TFRecord files: none, gzip or zlib (default: none)")
      ->transform(CLI::Transformer(compressions))
      ->option_text("METHOD");
  verb.add_option("--shuffle", request.seed, "write in another order, drawn with this seed")->option_text("SEED");
  verb.add_option("--resize-shorter", options.pictures.resize_shorter,
                  "shrink images whose shorter side is longer to so many pixels");
  verb.add_option("--quality", options.pictures.quality, "of JPEGs that were shrunk, 1 to 100")->capture_default_str();
  verb.add_option("--skip-bad", options.skip_bad, "leave out up to so many bad images")->capture_default_str();
  verb.add_option("--threads", options.threads, "each writes a file; 0: all cores")->capture_default_str();
  verb.add_option("--pattern", options.from.pattern, "of the source's file names, for TFRecord and tar");
  verb.add_flag("--multi-label", options.from.multi_label, "the TFRecord source's images can be of several classes");
  verb.add_option("--classes", options.from.classes, "of a TFRecord source without labels.txt");
  verb.add_option("--label-offset", options.from.label_offset, "what a TFRecord source calls its first class")
      ->capture_default_str();
  verb.add_flag("--json", request.json, "print the result as JSON");
}

}  // namespace

void add_convert(CLI::App& app, int& code) {
  CLI::App* verb =
      app.add_subcommand("convert", "write a data set of images as TFRecord files, tar archives or folders");
  const auto request = std::make_shared<ConvertRequest>();
  verb->add_option("FROM", request->options.from.directory,
                   "TFRecord, tar, folders of classes, ChestX-ray14 or idx (MNIST): found out")
      ->required();
  verb->add_option("TO", request->options.directory, "the directory; made when missing")->required();
  add_options(*verb, *request);
  verb->footer(
      "The same command goes on where an interrupted one ended.\n\nExamples:\n"
      "  xoe data convert photos data\n"
      "  xoe data convert photos data --split validation\n"
      "  xoe data convert imagenet small --resize-shorter 256 --quality 90 --shards 64\n"
      "  xoe data convert data archives --to tar");
  verb->callback([request, verb, &code] {
    if (verb->count("--shuffle") > 0) request->options.shuffle = request->seed;
    code = convert(*request);
  });
}

}  // namespace xoe::tools

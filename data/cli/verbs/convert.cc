// xoe data convert: writes a data set of images in another format.
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text.h"
#include "data/cli/convert/convert.h"
#include "data/cli/verbs/progress_line.h"
#include "data/cli/verbs/verbs.h"

namespace xoe::tools {
namespace {

using data::ConvertOptions;
using data::ConvertReport;
using Json = nlohmann::ordered_json;

struct ConvertRequest {
  ConvertOptions options;
  bool keep_order = false;
  bool json = false;
};

void print(const ConvertRequest& request, const ConvertReport& report) {
  const double speed = report.seconds > 0 ? static_cast<double>(report.images) / report.seconds : 0;
  const std::string& directory = request.options.directory;
  if (request.json) {
    const Json out = {{"directory", directory},
                      {"format", convert_to_name(request.options.to)},
                      {"images", report.images},
                      {"skipped", report.skipped},
                      {"bad", report.bad},
                      {"missing", report.missing},
                      {"missing_parts", report.missing_parts},
                      {"named_classes", report.named},
                      {"shuffled", report.shuffled},
                      {"shards", report.shards},
                      {"kept_shards", report.kept},
                      {"bytes", report.bytes},
                      {"seconds", report.seconds},
                      {"images_per_s", speed}};
    fmt::print("{}\n", json_text(out));
    return;
  }
  const bool folder = request.options.to == data::ConvertTo::kFolder;
  fmt::print("{}: {}, {}, {}, {:.1f} s ({:.0f} images/s)\n", directory, counted(report.images, "image"),
             folder ? "a file each" : "in " + counted(report.shards, "file"), human_bytes(report.bytes), report.seconds,
             speed);
  if (report.kept > 0) fmt::print("{} of {} kept from an earlier run\n", report.kept, counted(report.shards, "shard"));
  if (!report.named)
    fmt::print(
        "the source has no names of classes: {} by numbers of five digits, which sort as they count: 00000, ...\n",
        folder ? "folders are called" : "labels.txt calls them");
  print_left_out(counted(report.missing, "missing part") + " of the source", report.missing, report.missing_parts);
  print_left_out(counted(report.skipped, "bad image"), report.skipped, report.bad);
}

Result<int> convert(const ConvertRequest& request) {
  catch_signals();
  const auto work = [&](const data::ConvertProgress& progress) { return data::convert(request.options, progress); };
  XOE_ASSIGN(const ConvertReport report, with_progress("xoe data convert", !request.json, work));
  print(request, report);
  if (!report.assumed_labels.empty()) fmt::print(stderr, "xoe data convert: {}\n", report.assumed_labels);
  if (request.options.order == data::ConvertOrder::kAuto && !report.shuffled &&
      request.options.to != data::ConvertTo::kFolder)
    fmt::print(
        stderr,
        "xoe data convert: the images are in the source's order, because it is compressed and each image by itself "
        "costs about a MiB of decompression; --shuffle SEED shuffles all the same, or convert the result once "
        "more\n");
  return 0;
}

void add_options(CLI::App& verb, ConvertRequest& request) {
  ConvertOptions& options = request.options;
  using data::Compression;
  using data::ConvertTo;
  const std::vector<std::pair<std::string, ConvertTo>> formats = {
      {"tfrecord", ConvertTo::kTfRecord}, {"tar", ConvertTo::kTar}, {"folder", ConvertTo::kFolder}};
  add_choice<ConvertTo>(verb, "--format", options.to, formats, "format to write");
  add_choice<ConvertTo>(verb, "--to", options.to, formats, "")->group("");  // what it was called before
  add_split_option(verb, options.from.training);
  add_setting(verb, "--shards", options.shards, "number of files; 0: files of about 128 MiB");
  add_choice<Compression>(verb, "--compression", options.compression,
                          {{"none", Compression::kNone}, {"gzip", Compression::kGzip}, {"zlib", Compression::kZlib}},
                          "of TFRecord files");
  CLI::Option* const shuffle =
      verb.add_option(
              "--shuffle", options.seed,
              "the seed of the order of the images (default: 0, unless there are more than 10,000 in compressed files)")
          ->option_text("SEED");
  verb.add_flag("--keep-order", request.keep_order, "write the images in the order of the source")->excludes(shuffle);
  verb.add_option("--resize-shorter", options.reencode.resize_shorter,
                  "downscale images whose shorter side is longer than this many pixels");
  add_setting(verb, "--quality", options.reencode.quality, "quality of downscaled JPEGs, 1 to 100");
  add_missing_option(verb, options.from);
  add_max_bad_option(verb, options.from);
  add_setting(verb, "--threads", options.threads, "threads, each of which writes a file; 0: all cores");
  add_field_option<&Images::pattern>(verb, options.from);
  add_field_option<&Images::multi_label>(verb, options.from);
  add_field_option<&Images::classes>(verb, options.from);
  add_label_options(verb, options.from);
  verb.add_flag("--json", request.json, "print the result as JSON");
}

}  // namespace

void add_convert(CLI::App& app, int& code) {
  CLI::App* verb =
      app.add_subcommand("convert", "write a data set of images as TFRecord files, tar archives or folders");
  const auto request = std::make_shared<ConvertRequest>();
  verb->add_option(
          "FROM", request->options.from.directory,
          "a data set in TFRecord, tar, folders of classes, ChestX-ray14 or idx (MNIST); the format is detected")
      ->required();
  verb->add_option("TO", request->options.directory, "the directory to write; created if missing")->required();
  add_options(*verb, *request);
  verb->footer(
      "The same command continues an interrupted conversion.\n\nExamples:\n"
      "  xoe data convert photos data\n"
      "  xoe data convert photos data --split validation\n"
      "  xoe data convert imagenet small --resize-shorter 256 --quality 90 --shards 64\n"
      "  xoe data convert data archives --format tar");
  verb->callback([request, verb, &code] {
    if (verb->count("--shuffle") > 0) request->options.order = data::ConvertOrder::kShuffled;
    if (request->keep_order) request->options.order = data::ConvertOrder::kKept;
    code = finish("convert", convert(*request), request->json);
  });
}

}  // namespace xoe::tools

// xoe data make: renders a data set.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text.h"
#include "data/cli/convert/convert.h"
#include "data/cli/output_directory.h"
#include "data/cli/synth/chest_set.h"
#include "data/cli/synth/data_set.h"
#include "data/cli/verbs/progress_line.h"
#include "data/cli/verbs/verbs.h"

namespace xoe::tools {
namespace {

using data::synth::DataSetOptions;
using data::synth::DataSetReport;

enum class Format { kTfRecord, kFolder, kTar, kNihChest };

struct MakeRequest {
  DataSetOptions options;
  Format format = Format::kTfRecord;
  std::int64_t validation = -1;  // below 0: a fifth of the training images
  int side = 256;                // of radiographs
  bool json = false;
};

// By way of temporary TFRecord files.
Result<DataSetReport> make_converted(const MakeRequest& request, const data::synth::Progress& progress) {
  XOE_ASSIGN(auto directory, data::OutputDirectory::create(request.options.directory));
  DataSetOptions records = request.options;
  records.directory = directory.path() + "/.records";
  XOE_ASSIGN(DataSetReport report, data::synth::make_data_set(records, progress));
  report.files = 0;
  report.bytes = 0;
  for (const bool training : {true, false}) {
    if (!training && records.validation == 0) break;
    data::ConvertOptions options;
    options.from.directory = records.directory;
    options.from.training = training;
    options.directory = directory.path();
    options.to = request.format == Format::kTar ? data::ConvertTo::kTar : data::ConvertTo::kFolder;
    options.shards = training ? records.shards : std::max(1, records.shards / 4);
    options.threads = records.threads;
    const auto converted = data::convert(options, [](std::int64_t, std::int64_t) { return !stopped(); });
    if (stopped()) return failure(Code::kUnavailable, "stopped; nothing was kept");
    if (!converted) return failure(converted.error());
    report.files += request.format == Format::kTar ? converted->shards : static_cast<int>(converted->images);
    report.bytes += converted->bytes;
  }
  std::error_code ignored;
  std::filesystem::remove_all(records.directory, ignored);
  XOE_TRY(directory.finish());
  return report;
}

Result<DataSetReport> make_any(const MakeRequest& request, const data::synth::Progress& progress) {
  const DataSetOptions& options = request.options;
  if (request.format == Format::kTfRecord) return data::synth::make_data_set(options, progress);
  if (request.format != Format::kNihChest) return make_converted(request, progress);
  return data::synth::make_chest_set({.directory = options.directory,
                                      .images = options.images,
                                      .test = options.validation,
                                      .size = request.side,
                                      .seed = options.seed,
                                      .threads = options.threads},
                                     progress);
}

void print_report(const MakeRequest& request, const DataSetReport& report) {
  const DataSetOptions& options = request.options;
  const bool chest = request.format == Format::kNihChest;
  const int classes = chest ? 14 : options.classes;
  const double speed = static_cast<double>(report.images + report.validation) / report.seconds;
  if (!request.json) {
    fmt::print("{}: {} training and {} {} images of {} in {}, {}, {:.1f} s ({:.0f} images/s)\n", options.directory,
               report.images, report.validation, chest ? "test" : "validation", counted(classes, "class"),
               counted(report.files, "file"), human_bytes(report.bytes), report.seconds, speed);
    return;
  }
  const nlohmann::ordered_json out = {{"directory", options.directory},  {"images", report.images},
                                      {"validation", report.validation}, {"classes", classes},
                                      {"files", report.files},           {"bytes", report.bytes},
                                      {"seconds", report.seconds},       {"images_per_s", speed}};
  fmt::print("{}\n", json_text(out));
}

Result<int> make(const MakeRequest& request) {
  catch_signals();
  const auto work = [&request](const data::synth::Progress& progress) { return make_any(request, progress); };
  XOE_ASSIGN(const DataSetReport report, with_progress("xoe data make", !request.json, work));
  print_report(request, report);
  return 0;
}

void add_options(CLI::App& verb, MakeRequest& request) {
  DataSetOptions& options = request.options;
  verb.add_option("DIR", options.directory, "the directory to write; created if missing")->required();
  add_choice<Format>(
      verb, "--format", request.format,
      {{"tfrecord", Format::kTfRecord}, {"folder", Format::kFolder}, {"tar", Format::kTar}, {"nih", Format::kNihChest}},
      "nih makes radiographs in the layout of ChestX-ray14");
  add_setting(verb, "--images", options.images, "training images");
  verb.add_option("--validation", request.validation,
                  "validation or test images (default: a fifth of the training images)");
  add_setting(verb, "--classes", options.classes, "1 to 1000; nih has 14 findings");
  add_setting(verb, "--shards", options.shards, "training files");
  add_setting(verb, "--seed", options.seed, "seed of everything random");
  add_setting(verb, "--size-min", options.size_min, "least length of the shorter side, pixels");
  add_setting(verb, "--size-max", options.size_max, "most length of the longer side, pixels");
  CLI::Option* width = verb.add_option("--width", options.width, "width of every image, pixels; needs --height");
  CLI::Option* height = verb.add_option("--height", options.height, "height of every image, pixels; needs --width");
  width->needs(height);
  height->needs(width);
  add_setting(verb, "--side", request.side, "height and width of radiographs, pixels");
  add_setting(verb, "--quality", options.quality, "quality of JPEGs, 1 to 100");
  add_setting(verb, "--grain-min", options.film.grain_min, "least noise of pixels, 0 to 1");
  add_setting(verb, "--grain-max", options.film.grain_max, "most noise of pixels, 0 to 1");
  add_setting(verb, "--detail", options.film.detail, "noise of all scales, as in photographs, 0 to 10");
  verb.add_flag("--plain", options.plain, "only colour and baseline JPEGs, no grey or progressive ones");
  add_setting(verb, "--threads", options.threads, "0: all cores");
  verb.add_flag("--overwrite", options.overwrite, "replace existing record files");
  verb.add_flag("--json", request.json, "print the result as JSON");
}

}  // namespace

void add_make(CLI::App& app, int& code) {
  CLI::App* verb = app.add_subcommand("make", "render images into a data set, as TFRecord files or in another format");
  const auto request = std::make_shared<MakeRequest>();
  add_options(*verb, *request);
  verb->footer(
      "Examples:\n  xoe data make --images 3000 --classes 10 data\n"
      "  xoe data make --format nih --images 2000 chest");
  verb->callback([request, &code] {
    DataSetOptions& options = request->options;
    options.validation = request->validation >= 0 ? request->validation : options.images / 5;
    code = finish("make", make(*request), request->json);
  });
}

}  // namespace xoe::tools

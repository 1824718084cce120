// xoe data: makes and inspects record files.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "data/synth/data_set.h"
#include "data_inspect.h"

namespace {

using xoe::data::synth::DataSetOptions;
using xoe::data::synth::DataSetReport;

constexpr int kFailed = 1;
constexpr int kUsageError = 2;

volatile std::sig_atomic_t stop_signal = 0;
void on_signal(int signal) { stop_signal = signal; }

// Lets a stopped run remove its half files, and a full disk or a limit be an error instead of an end.
void catch_signals() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
}

class ProgressLine {
 public:
  explicit ProgressLine(bool wanted) : wanted_(wanted), terminal_(::isatty(STDERR_FILENO) != 0) {}
  ~ProgressLine() {
    if (bar_) fmt::print(stderr, "\r\033[K");
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(std::int64_t done, std::int64_t total) {
    if (!wanted_) return;
    if (terminal_) {
      constexpr std::int64_t kWidth = 40;
      const auto filled = static_cast<std::size_t>(kWidth * done / total);
      fmt::print(stderr, "\r[{:<40}] {}/{} images", std::string(filled, '='), done, total);
      bar_ = true;
    } else if (const std::int64_t quarter = 4 * done / total; quarter > quarter_) {
      quarter_ = quarter;
      fmt::print(stderr, "xoe data make: {}/{} images\n", done, total);
    }
    std::fflush(stderr);
  }

 private:
  bool wanted_;
  bool terminal_;
  bool bar_ = false;
  std::int64_t quarter_ = 0;
};

void print_report(const DataSetOptions& options, const DataSetReport& report, bool json) {
  const double speed = static_cast<double>(report.images + report.validation) / report.seconds;
  if (!json) {
    fmt::print("{}: {} training and {} validation images of {} classes in {} files, {}, {:.1f} s ({:.0f} images/s)\n",
               options.directory, report.images, report.validation, options.classes, report.files,
               xoe::human_bytes(report.bytes), report.seconds, speed);
    return;
  }
  const nlohmann::ordered_json out = {{"directory", options.directory},  {"images", report.images},
                                      {"validation", report.validation}, {"classes", options.classes},
                                      {"files", report.files},           {"bytes", report.bytes},
                                      {"seconds", report.seconds},       {"images_per_s", speed}};
  fmt::print("{}\n", out.dump());
}

int make(const DataSetOptions& options, bool json) {
  catch_signals();
  ProgressLine line(!json);
  const auto report = xoe::data::synth::make_data_set(options, [&line](std::int64_t done, std::int64_t total) {
    line.show(done, total);
    return stop_signal == 0;
  });
  if (report) {
    line.show(1, 1);
    print_report(options, *report, json);
    return std::fflush(stdout) == 0 ? 0 : kFailed;
  }
  if (json) fmt::print("{}\n", nlohmann::json{{"error", report.error().to_string()}}.dump());
  fmt::print(stderr, "xoe data make: {}\n", report.error().message());
  if (stop_signal != 0) return 128 + stop_signal;
  return report.error().code() == xoe::Code::kInvalidArgument ? kUsageError : kFailed;
}

void add_make(CLI::App& app, DataSetOptions& options, std::int64_t& validation, bool& json) {
  CLI::App* verb = app.add_subcommand("make", "render pictures into TFRecord files in the ImageNet layout");
  verb->add_option("DIR", options.directory, "the directory; made when missing")->required();
  verb->add_option("--images", options.images, "training images")->capture_default_str();
  verb->add_option("--validation", validation, "validation images (default: a fifth as many)");
  verb->add_option("--classes", options.classes, "1 to 1000")->capture_default_str();
  verb->add_option("--shards", options.shards, "training files")->capture_default_str();
  verb->add_option("--seed", options.seed, "of everything random")->capture_default_str();
  verb->add_option("--size-min", options.size_min, "pixels of the shorter side, at least")->capture_default_str();
  verb->add_option("--size-max", options.size_max, "pixels of the longer side, at most")->capture_default_str();
  verb->add_option("--quality", options.quality, "of JPEG, 1 to 100")->capture_default_str();
  verb->add_option("--threads", options.threads, "0: all cores")->capture_default_str();
  verb->add_flag("--overwrite", options.overwrite, "replace the record files that are there");
  verb->add_flag("--json", json, "print the result as JSON");
}

void add_inspect(CLI::App& app, xoe::tools::InspectOptions& options) {
  CLI::App* verb = app.add_subcommand("inspect", "check a TFRecord file and say what is in it");
  verb->add_option("FILE", options.file)->required();
  verb->add_option("--records", options.records, "how many to show one by one")->capture_default_str();
  verb->add_flag("--json", options.json, "print JSON");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Makes and inspects record files.", "xoe data");
  app.require_subcommand(1);
  DataSetOptions make_options;
  std::int64_t validation = -1;
  bool json = false;
  xoe::tools::InspectOptions inspect_options;
  add_make(app, make_options, validation, json);
  add_inspect(app, inspect_options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  if (app.got_subcommand("inspect")) return xoe::tools::inspect(inspect_options);
  make_options.validation = validation >= 0 ? validation : make_options.images / 5;
  return make(make_options, json);
}

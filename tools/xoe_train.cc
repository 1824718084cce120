// xoe-train: the built-in trainer.
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <limits>
#include <map>

#include "bootstrap/launch_env.h"
#include "train/options.h"
#include "train/texts.h"
#include "train/trainer.h"
#include "xoe/communicator.h"

namespace {

using namespace xoe;

constexpr int kFailure = 1;
constexpr int kUsage = 2;
constexpr int kInterrupted = 130;

std::atomic<bool> stop_asked{false};
std::atomic<std::int64_t> stop_asked_at{0};  // milliseconds; 0: not yet

// `timeout` and some shells send a signal to the process and to its group: twice, but meant once.
constexpr std::int64_t kSameSignalMs = 250;

// The first signal asks for a clean stop, a later one ends the process at once.
void on_signal(int signal) {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t ms = std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
  std::int64_t first = 0;
  if (stop_asked_at.compare_exchange_strong(first, ms)) return stop_asked.store(true, std::memory_order_relaxed);
  if (ms - first < kSameSignalMs) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void watch_signals() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  // A file-size limit or a reader that went away is an error like others, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
}

struct ConsoleOptions {
  bool json = false;
  std::string summary;
};

// Prints what rank 0 tells: lines, and a progress bar below them on a terminal.
class Console : public train::Listener {
 public:
  explicit Console(ConsoleOptions options)
      : options_(std::move(options)), bar_(!options_.json && ::isatty(STDOUT_FILENO) == 1) {}

  bool failed_together() const noexcept { return failed_together_; }

  void started(const train::RunStart& start) override {
    if (options_.json) return line(train::start_json(start));
    line(train::start_lines(start));
    line(train::report_header());
  }
  void stepped(std::int64_t step, std::int64_t total) override {
    if (!bar_) return;
    constexpr std::int64_t kCells = 40;
    const auto full = static_cast<std::size_t>(step * kCells / std::max<std::int64_t>(1, total));
    fmt::print("\r[{}{}] {}/{}", std::string(full, '='), std::string(kCells - full, ' '), step, total);
    std::fflush(stdout);
  }
  void reported(const train::Report& report) override {
    line(options_.json ? train::report_json(report) : train::report_line(report));
  }
  void evaluated(const train::Evaluation& evaluation) override {
    line(options_.json ? train::evaluation_json(evaluation) : train::evaluation_line(evaluation));
  }
  void noted(std::string_view message) override {
    if (!options_.json) line(message);
  }
  void failed_everywhere() override { failed_together_ = true; }

  void finished(const train::Outcome& outcome) {
    line(options_.json ? train::outcome_json(outcome) : train::outcome_lines(outcome));
    if (!options_.summary.empty()) line(train::summary_line(options_.summary, outcome));
  }

 private:
  void line(std::string_view text) {
    if (bar_) fmt::print("\r\x1b[K");
    fmt::print("{}\n", text);
    std::fflush(stdout);
  }

  ConsoleOptions options_;
  bool bar_;
  bool failed_together_ = false;
};

void print_error(const Error& error) {
  fmt::print(stderr, "error: {}\n", error.to_string());
  std::fflush(stderr);
}

constexpr const char* kExamples = R"(
Examples:
  xoe train --synthetic --model resnet50 --batch 4 --steps 50     speed of this machine
  xoe data make --images 3000 --validation 600 --classes 10 --shards 4 demo-data
  xoe train --data demo-data --model resnet18 --epochs 10 --run-dir runs/a
  xoe run -np 2 xoe train --data demo-data --epochs 10 --run-dir runs/b --timeline runs/b/timeline.json
  xoe run -np 2 xoe train --data demo-data --checkpoint runs/c/checkpoints --checkpoint-every 100 --resume

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted (SIGINT, SIGTERM: the step was finished and a
checkpoint written; a second signal, a quarter of a second later or more, ends at once).)";

void add_data_options(CLI::App& app, train::TrainOptions& options, bool& synthetic) {
  auto* data = app.add_option("--data", options.data_dir, "folder of train-* and validation-* TFRecord files");
  data->type_name("DIR");
  app.add_flag("--synthetic", synthetic, "one random batch, made once")->excludes(data);
  app.add_option("--classes", options.classes, "number of classes (default: as the data has; 1000 synthetic)");
  app.add_option("--batch", options.batch, "images per rank and pass")->capture_default_str();
  app.add_option("--image-size", options.image_size, "height and width")->capture_default_str();
  app.add_option("--data-threads", options.data_threads,
                 "that decode, per rank: a number, 0 for none of their own, or auto: as many as training needs")
      ->transform(CLI::Transformer(std::map<std::string, int>{{"auto", -1}}))
      ->default_str("auto");
  app.add_option("--max-bad-images", options.max_bad_images, "broken images to skip and count per rank and epoch")
      ->capture_default_str();
}

void add_recipe_options(CLI::App& app, train::TrainOptions& options) {
  static const std::map<std::string, train::OptimizerKind> kOptimizers = {{"sgd", train::OptimizerKind::kSgd},
                                                                          {"adamw", train::OptimizerKind::kAdamW}};
  static const std::map<std::string, train::Precision> kPrecisions = {{"fp32", train::Precision::kFp32},
                                                                      {"bf16", train::Precision::kBf16}};
  app.add_option("--model", options.model, "mlp, resnet18, resnet50 or vit_tiny")->capture_default_str();
  auto* epochs = app.add_option("--epochs", options.epochs, "how often to go through the data (default 10)");
  app.add_option("--steps", options.steps, "how many steps instead (default 100 synthetic)")->excludes(epochs);
  app.add_option("--lr", options.lr, "peak learning rate for --lr-batch images (default: sgd 0.1, adamw 0.001)");
  app.add_option("--lr-batch", options.lr_batch, "the rate grows with images per step over this; 0: it does not")
      ->capture_default_str();
  app.add_option("--lr-warmup", options.lr_warmup_epochs, "epochs in which the rate rises")->capture_default_str();
  app.add_option("--optimizer", options.optimizer, "sgd or adamw")
      ->transform(CLI::CheckedTransformer(kOptimizers))
      ->type_name("NAME");
  app.add_option("--momentum", options.momentum, "of sgd")->capture_default_str();
  app.add_option("--weight-decay", options.weight_decay, "(default: sgd 5e-5, adamw 0.05)");
  app.add_option("--label-smoothing", options.label_smoothing, "0 to 1")->capture_default_str();
  app.add_option("--accumulate", options.accumulate, "passes per step")->capture_default_str();
  app.add_option("--seed", options.seed, "of weights, order and distortions")->capture_default_str();
  app.add_option("--precision", options.precision, "fp32 or bf16 (autocast)")
      ->transform(CLI::CheckedTransformer(kPrecisions))
      ->type_name("NAME");
}

void add_machine_options(CLI::App& app, train::TrainOptions& options) {
  static const std::map<std::string, train::DeviceKind> kDevices = {
      {"auto", train::DeviceKind::kAuto}, {"cpu", train::DeviceKind::kCpu}, {"cuda", train::DeviceKind::kCuda}};
  app.add_option("--device", options.device, "auto, cpu or cuda")
      ->transform(CLI::CheckedTransformer(kDevices))
      ->type_name("NAME");
  app.add_option("--threads", options.threads, "of libtorch per rank (default: cores / ranks of this host)");
  app.add_flag("--sharded", options.sharded, "ranks share parameters, each updates its part for all");
  app.add_option("--bucket-mb", options.bucket_mib, "MiB of gradients reduced at once")->capture_default_str();
}

void add_output_options(CLI::App& app, train::TrainOptions& options, ConsoleOptions& console) {
  app.add_option("--eval-every", options.eval_every, "epochs between evaluations; 0: at the end")
      ->capture_default_str();
  app.add_option("--report-every", options.report_every, "steps between reports")->capture_default_str();
  app.add_option("--warmup-steps", options.warmup_steps, "first steps that no speed is measured of")
      ->capture_default_str();
  app.add_option("--checkpoint", options.checkpoint_dir, "folder for checkpoints")->type_name("DIR");
  app.add_option("--checkpoint-every", options.checkpoint_every, "steps; 0: at the end and when interrupted")
      ->capture_default_str();
  app.add_option("--checkpoint-keep", options.checkpoint_keep, "newest ones to keep")->capture_default_str();
  app.add_flag("--resume", options.resume, "go on from the newest checkpoint, if there is one");
  app.add_option("--run-dir", options.run_dir, "folder for metrics.jsonl and curve.svg")->type_name("DIR");
  app.add_option("--timeline", options.timeline, "trace of all ranks for Perfetto")->type_name("FILE");
  app.add_flag("--json", console.json, "print JSON lines");
  app.add_option("--summary", console.summary, "end with `NAME: accuracy=... images_per_s=...`")->type_name("NAME");
}

// A rank above 0 leaves it to rank 0 to complain about a command line that all ranks share.
bool first_of_job() {
  const auto info = bootstrap::read_launch_info(Env::process());
  return !info || info->topology.rank == 0;
}

// Launchers end all other ranks as soon as one has failed: such a signal is waited for, so that rank 0 is heard, which
// may start late.
void leave_it_to_rank_0() {
  sigset_t ending;
  ::sigemptyset(&ending);
  for (const int signal : {SIGINT, SIGTERM}) ::sigaddset(&ending, signal);
  ::sigprocmask(SIG_BLOCK, &ending, nullptr);
  const timespec patience = {.tv_sec = 10, .tv_nsec = 0};
  if (!stop_asked) ::sigtimedwait(&ending, nullptr, &patience);
}

int usage_error(std::string_view message) {
  if (first_of_job()) {
    fmt::print(stderr, "error: {}\nxoe train --help lists the options\n", message);
  } else {
    leave_it_to_rank_0();
  }
  return kUsage;
}

int run(const train::TrainOptions& options, const ConsoleOptions& console_options) {
  auto comm = init();
  if (!comm) {
    print_error(comm.error());
    return kFailure;
  }
  Console console(console_options);
  const auto outcome = train::train(options, *comm, console, stop_asked);
  if (!outcome) {
    const Code code = outcome.error().code();
    const bool group_lost = code == Code::kPeerLost || code == Code::kTimeout;
    const bool together = console.failed_together() && !group_lost;
    if (!together || comm->rank() == 0) print_error(outcome.error());
    // So that no rank ends, and is taken for the culprit, before rank 0 has said why.
    if (together) (void)comm->barrier({.timeout = std::chrono::seconds(1)});
    return kFailure;
  }
  if (comm->rank() == 0) console.finished(*outcome);
  // The same for exit code 130.
  if (outcome->interrupted) (void)comm->barrier({.timeout = std::chrono::seconds(1)});
  return outcome->interrupted ? kInterrupted : 0;
}

// Each step frees and allocates the same large tensors. By default glibc returns them to the kernel, which then clears
// every page again: a fifth of a step of resnet50 at batch 4.
void keep_freed_memory() {
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the largest that glibc takes
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
  watch_signals();
  CLI::App app("Trains an image classifier, alone or under `xoe run -np N`.", "xoe train");
  app.footer(kExamples);
  train::TrainOptions options;
  ConsoleOptions console;
  bool synthetic = false;
  add_data_options(app, options, synthetic);
  add_recipe_options(app, options);
  add_machine_options(app, options);
  add_output_options(app, options, console);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    if (first_of_job()) app.exit(help);
    return 0;
  } catch (const CLI::ParseError& error) {
    return usage_error(error.what());
  }
  if (!synthetic && options.data_dir.empty()) return usage_error("say what to train on: --data DIR or --synthetic");
  auto complete = train::complete_options(options);
  if (!complete) return usage_error(complete.error().message());
  return run(*complete, console);
}

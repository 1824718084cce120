#include "measure/cli/train_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/process_use.h"
#include "core/base/random_token.h"
#include "core/trace/summary.h"
#include "measure/cli/counters.h"
#include "train/trainer/agree.h"
#include "train/trainer/batches.h"
#include "train/trainer/device.h"
#include "train/trainer/environment.h"
#include "train/trainer/trainer.h"

namespace xoe::bench {
namespace {

using Print = std::function<void(std::string_view)>;
using train::StepTimes;

constexpr double kMs = 1e3;
constexpr std::string_view kTraining = "training";

// Takes the steps after the warm-up of one run.
class Observer : public train::Listener {
 public:
  // started: on rank 0, before the first step.
  Observer(const TrainFlags& flags, const Print& print, std::function<void(const train::RunStart&)> started)
      : flags_(flags), print_(print), started_(std::move(started)) {}

  void started(const train::RunStart& start) override { started_(start); }
  void measured(const train::StepSample& sample) override {
    const std::int64_t step = sample.step - flags_.num_warmup_batches;
    if (step < 1) return;
    speed_.add(sample.images, sample.seconds);
    times_ += sample.times;
    seconds_ += sample.seconds;
    loss_ = sample.loss;
    accuracy_ = sample.accuracy;
    ++steps_;
    if (step == 1 || step % flags_.display_every == 0) print_(step_line(step, repeat()));
  }
  void warned(std::string_view message) override { fmt::print(stderr, "xoe: {}\n", message); }
  void failed_everywhere() override { failed_together_ = true; }

  TrainRepeat repeat() const {
    const train::SpeedStats stats = speed_.stats();
    return {.images_per_s = stats.mean,
            .uncertainty = stats.uncertainty,
            .jitter = stats.jitter,
            .step_ms = seconds_ / static_cast<double>(steps_) * kMs,
            .loss = loss_,
            .training_accuracy = flags_.print_training_accuracy ? accuracy_ : -1};
  }
  const StepTimes& times() const { return times_; }
  double seconds() const { return seconds_; }
  bool failed_together() const { return failed_together_; }

 private:
  const TrainFlags& flags_;
  const Print& print_;
  std::function<void(const train::RunStart&)> started_;
  train::SpeedMeter speed_;
  StepTimes times_;
  double seconds_ = 0;
  double loss_ = 0;
  double accuracy_ = 0;
  std::int64_t steps_ = 0;
  bool failed_together_ = false;
};

// What the ranks measured apart, over all runs.
struct OfRank {
  StepTimes times;
  double seconds = 0;
  double reduced = 0;  // bytes
};

// Collective: sums over ranks, and the largest peak of memory.
Status combine(Communicator& comm, OfRank& mine, double& peak) {
  std::array sums = {mine.times.data,      mine.times.compute, mine.times.forward, mine.times.peers,
                     mine.times.optimizer, mine.seconds,       mine.reduced};
  XOE_TRY(comm.allreduce(Tensor(sums.data(), sums.size()), ReduceOp::kSum, {.name = "bench sums"}));
  peak = static_cast<double>(process_peak_bytes());
  XOE_TRY(comm.allreduce(Tensor(&peak, 1), ReduceOp::kMax, {.name = "bench peak"}));
  mine = {.times = {.data = sums[0], .compute = sums[1], .forward = sums[2], .peers = sums[3], .optimizer = sums[4]},
          .seconds = sums[5],
          .reduced = sums[6]};
  return {};
}

StepParts parts_of(const OfRank& all, double steps, bool trains) {
  const double scale = kMs / steps;
  StepTimes times = all.times;
  if (!trains) times.forward = times.compute;  // on a GPU the end of the pass is waited for apart
  return {.input = times.data * scale,
          .forward = times.forward * scale,
          .backward = (times.compute - times.forward) * scale,
          .exposed = times.peers * scale,
          .optimizer = times.optimizer * scale,
          .rest = std::max(0.0, all.seconds - times.total()) * scale};
}

std::string mode_name(const TrainFlags& flags) {
  return flags.forward_only ? "forward-only" : flags.eval ? "evaluation" : std::string(kTraining);
}

TrainResult describe(const TrainFlags& flags, const Communicator& comm) {
  TrainResult result;
  const train::TrainOptions& options = flags.options;
  result.model = options.model;
  result.mode = mode_name(flags);
  result.data = options.data_dir.empty() ? fmt::format("{} (synthetic)", flags.data_name) : options.data_dir;
  result.optimizer = flags.optimizer;
  result.precision = train::precision_name(options.precision);
  result.image_size = data::to_text(options.image_size);
  result.batch = options.batch;
  result.accumulate = options.accumulate;
  result.ranks = comm.size();
  result.local_ranks = comm.local_size();
  result.hosts = std::max(1, comm.cross_size());
  result.pretended_hosts = Env::process().has("XOE_PRETEND_HOSTS");
  result.backend = comm.backend_name();
  result.emulated_images_per_s = options.emulated_images_per_s;
  result.num_batches = flags.num_batches;
  result.num_warmup_batches = flags.num_warmup_batches;
  auto json =
      nlohmann::ordered_json::parse(train::environment_json(options, Env::process(), train::libtorch_version()));
  json["command"][1] = "bench";  // "xoe bench train ..."
  result.environment = json.dump();
  return result;
}

// The files of a timeline that this process removes: of its host, made by its local rank 0.
std::vector<std::string> trace_files(const std::string& path) {
  const std::filesystem::path whole(path);
  std::vector<std::string> files;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(whole.parent_path(), ignored))
    if (entry.path().filename().string().starts_with(whole.stem().string())) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

// Copies this host's timeline to `file`; where hosts have one each, the others' names tell the host.
Status keep_trace(const std::string& path, const std::string& file) {
  const std::filesystem::path target(file);
  const std::string stem = std::filesystem::path(path).stem().string();
  for (const std::string& found : trace_files(path)) {
    const std::string rest = std::filesystem::path(found).filename().string().substr(stem.size());
    const auto to = rest == ".json" ? target : target.parent_path() / (target.stem().string() + rest);
    std::error_code error;
    std::filesystem::copy_file(found, to, std::filesystem::copy_options::overwrite_existing, error);
    if (error) return failure(Code::kUnavailable, "--trace-file {}: {}", to.string(), error.message());
  }
  return {};
}

// A short run with a timeline: milliseconds of hidden communication in a step of rank 0's host; on rank 0 the timeline
// itself, where a page is to show it.
Result<double> run_traced(const TrainFlags& flags, Communicator& comm, Observer& observer,
                          std::optional<pages::Timeline>& timeline) {
  train::TrainOptions options = flags.options;
  options.steps = std::min(flags.traced_batches, flags.num_batches) + std::min(2, flags.num_warmup_batches);
  options.evaluate = false;
  options.checkpoint_dir.clear();
  options.checkpoint_every = 0;
  options.tensorboard.clear();
  std::error_code ignored;
  XOE_ASSIGN(const std::string token, random_token());
  std::string path = std::filesystem::temp_directory_path(ignored) / fmt::format("xoe-bench-{}.json", token);
  XOE_TRY(train::broadcast_bytes(comm, path));
  options.timeline = path;
  const std::atomic<bool> stop{false};
  const auto outcome = train::train(options, comm, observer, stop);
  double hidden = -1;
  if (outcome && comm.rank() == 0) {
    for (const std::string& file : trace_files(path)) {
      const auto summary = trace::summarize_trace(file);
      if (!summary || summary->ranks.empty()) continue;
      hidden = static_cast<double>(summary->overlap.common_ns) * 1e-6 /
               static_cast<double>(summary->ranks.size() * static_cast<std::size_t>(options.steps));
      if (!flags.out.html.empty())
        if (auto read = pages::read_timeline(file)) timeline = std::move(*read);
      break;
    }
  }
  XOE_TRY(comm.barrier());
  Status kept;
  if (comm.local_rank() == 0) {
    if (outcome && !flags.trace_file.empty()) kept = keep_trace(path, flags.trace_file);
    for (const std::string& file : trace_files(path)) std::filesystem::remove(file, ignored);
  }
  if (!outcome) return failure(outcome.error());
  XOE_TRY(comm.broadcast(Tensor(&hidden, 1), 0));
  XOE_TRY(kept);
  return hidden;
}

Result<TrainRepeat> run_once(const TrainFlags& flags, Communicator& comm, Observer& observer, OfRank& mine) {
  const std::atomic<bool> stop{false};
  XOE_ASSIGN(const train::Outcome outcome, train::train(flags.options, comm, observer, stop));
  mine.times += observer.times();
  mine.seconds += observer.seconds();
  mine.reduced += static_cast<double>(counter_of(outcome.metrics, "xoe_bytes_total", "kind=\"allreduce\"") +
                                      counter_of(outcome.metrics, "xoe_bytes_total", "kind=\"reduce_scatter\"")) /
                  static_cast<double>(flags.options.steps);
  TrainRepeat repeat = observer.repeat();
  repeat.accuracy = outcome.accuracy;
  return repeat;
}

// Steps of an epoch; with --eval, of the held-out images, where there are some. Rank 0 asks the data, whose mistakes
// the training itself reports.
Result<double> steps_of_epoch(const TrainFlags& flags, Communicator& comm) {
  const train::TrainOptions& options = flags.options;
  const double step = static_cast<double>(options.batch) * options.accumulate * comm.size();
  double steps = static_cast<double>(epoch_of(flags)) / step;
  if (options.data_dir.empty()) return steps;
  if (comm.rank() == 0) {
    const auto data = train::image_batches(options, {.rank = 0, .size = comm.size(), .local_size = comm.local_size()},
                                           [](std::string_view) {});
    if (data && flags.eval && (*data)->info().held_out > 0) {
      steps = static_cast<double>((*data)->info().held_out) / step;
    } else {
      steps = data ? static_cast<double>((*data)->info().batches_per_epoch) / options.accumulate : 1;
    }
  }
  XOE_TRY(comm.broadcast(Tensor(&steps, 1), 0));
  return steps;
}

}  // namespace

Status settle_flags(TrainFlags& flags, Communicator& comm) {
  if (flags.variable_update == "independent" && comm.size() > 1)
    return failure(Code::kInvalidArgument,
                   "--variable-update=independent: {} ranks of a job average their gradients; start each rank alone",
                   comm.size());
  if (flags.num_epochs == 0) return {};
  XOE_ASSIGN(const double epoch, steps_of_epoch(flags, comm));
  const double batches = std::ceil(flags.num_epochs * epoch);
  if (!(batches <= kMostBatches))
    return failure(Code::kInvalidArgument, "--num-epochs {}: these are {:.0f} steps, of at most {}", flags.num_epochs,
                   batches, kMostBatches);
  set_batches(flags, std::max(1, static_cast<int>(batches)));
  return {};
}

Result<MeasuredTraining> run_training(const TrainFlags& flags, Communicator& comm, const Print& print,
                                      bool& failed_together) {
  MeasuredTraining measured = {.result = describe(flags, comm)};
  TrainResult& result = measured.result;
  const Print quiet = [](std::string_view) {};
  const Print& steps = comm.rank() == 0 ? print : quiet;
  OfRank mine;
  for (int repeat = 0; repeat < flags.repeat; ++repeat) {
    Observer observer(flags, steps, [&](const train::RunStart& start) {
      if (repeat == 0) {
        result.parameters = start.parameters;
        result.device = start.device;
        result.threads = start.threads;
        result.buckets = start.buckets;
        steps(head_lines(result));
      }
      steps(flags.print_training_accuracy ? "Step\tImg/sec\ttotal_loss\ttop_1_accuracy" : "Step\tImg/sec\ttotal_loss");
    });
    auto one = run_once(flags, comm, observer, mine);
    failed_together = observer.failed_together();
    if (!one) return failure(one.error());
    steps(total_lines(*one));
    result.repeats.push_back(*one);
  }
  double peak = 0;
  XOE_TRY(combine(comm, mine, peak));
  const double runs = static_cast<double>(flags.repeat) * comm.size();
  const bool trains = mode_name(flags) == kTraining;
  result.parts = parts_of(mine, runs * flags.num_batches, trains);
  result.peak_bytes = static_cast<std::uint64_t>(peak);
  const bool reduces = comm.size() > 1 && trains;
  if (reduces) {
    result.reduced_step_bytes = static_cast<std::uint64_t>(mine.reduced / runs);
    result.sent_step_bytes = result.reduced_step_bytes * 2 * static_cast<std::uint64_t>(comm.size() - 1) /
                             static_cast<std::uint64_t>(comm.size());
  }
  if (flags.traced_batches > 0 && (reduces || !flags.out.html.empty() || !flags.trace_file.empty())) {
    Observer observer(flags, quiet, [](const train::RunStart&) {});
    auto hidden = run_traced(flags, comm, observer, measured.timeline);
    failed_together = observer.failed_together();
    if (!hidden) return failure(hidden.error());
    if (reduces) result.parts.hidden = *hidden;
  }
  return measured;
}

}  // namespace xoe::bench

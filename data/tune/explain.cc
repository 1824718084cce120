// explain() and to_table(): a report in words.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/base/text.h"
#include "data/tune/cpus.h"
#include "xoe/data/report.h"

namespace xoe::data {
namespace {

constexpr double kFed = 0.02;       // share of its time up to which a consumer may wait and still count as fed
constexpr double kOnlyTakes = 0.9;  // share of waiting from which a consumer does nothing else, as a benchmark does
constexpr double kBusy = 0.8;       // share of its time from which a thread counts as always at work
constexpr double kIdleShare = 0.1;  // share of their time from which idle threads are worth a word
constexpr double kMostStall = 0.9;  // beyond it an estimate of the threads that are missing means nothing
constexpr int kConsumer = -1;

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::string all_cpus_in_use(int cpus) {
  if (cpus == 1) return "The only CPU that this process was given is in use";
  return fmt::format("All {} CPUs that this process was given are in use", cpus);
}

// ---- Stages

// The stage whose threads run stage `at`, or the consumer.
int owner_of(const std::vector<StageReport>& stages, int at) {
  while (at >= 0 && stages[static_cast<std::size_t>(at)].most_threads == 0)
    at = stages[static_cast<std::size_t>(at)].feeds;
  return at < 0 ? kConsumer : at;
}

// The threads of one stage with all that they run, or the consumer's thread with what it runs.
struct ThreadGroup {
  int owner = kConsumer;
  double own = 0;     // seconds of the owner's work
  double inputs = 0;  // of the stages that it takes from
  int threads = 1;
  int pullers = 1;
  int slowest = kConsumer;  // the stage with most work in it
  bool serial = false;      // its inputs take longest, however many threads there are

  // Seconds that its thread is busy, if the work is spread as it can be.
  double load() const { return std::max((own + inputs) / threads, inputs / pullers); }
};

std::vector<ThreadGroup> groups_of(const std::vector<StageReport>& stages) {
  std::vector<ThreadGroup> groups(stages.size() + 1);
  for (int at = 0; at < static_cast<int>(stages.size()); ++at) {
    const StageReport& stage = stages[static_cast<std::size_t>(at)];
    const int owner = owner_of(stages, at);
    ThreadGroup& group = groups.begin()[owner + 1];
    group.owner = owner;
    (owner == at ? group.own : group.inputs) += stage.seconds;
    if (owner == at) {
      group.threads = std::max(stage.threads, 1);
      group.pullers = std::clamp(stage.pullers, 1, group.threads);
    }
    if (group.slowest == kConsumer || stage.seconds > stages[static_cast<std::size_t>(group.slowest)].seconds)
      group.slowest = at;
  }
  for (ThreadGroup& group : groups)
    group.serial = group.owner != kConsumer && group.pullers == 1 &&
                   group.inputs >= (group.own + group.inputs) / group.threads && group.slowest != group.owner;
  return groups;
}

// The queue that is nearest to the consumer.
const StageReport* last_queue(const std::vector<StageReport>& stages) {
  const auto found = std::find_if(stages.rbegin(), stages.rend(), [](const auto& stage) { return stage.depth > 0; });
  return found == stages.rend() ? nullptr : &*found;
}

std::string advice(const PipelineReport& report, const ThreadGroup& group) {
  const auto& stages = report.stages;
  const StageReport* queue =
      group.owner == kConsumer ? last_queue(stages) : &stages[static_cast<std::size_t>(group.owner)];
  const double seconds = group.owner == kConsumer ? report.making.waited : report.seconds();
  if (queue != nullptr && group.load() < kBusy * seconds)
    return fmt::format(
        "No thread was busy all the time: elements come or go in bursts, and more ahead (now {} in {}) would help.",
        queue->depth, queue->name);
  if (group.owner == kConsumer)
    return "It works in the consumer's own thread: prefetch() behind it, or map() with threads, would work ahead.";
  const StageReport& owner = stages[static_cast<std::size_t>(group.owner)];
  if (group.serial || owner.name == "prefetch")
    return fmt::format(
        "One thread of {} does it, an element after the other: map() or interleave() with threads would do several at "
        "a time.",
        owner.name);
  const double stall = std::min(report.stall_share(), kMostStall);
  const auto more = static_cast<int>(std::ceil(group.threads * stall / (1 - stall)));
  const int free = report.cpus - report.making.threads;
  if (free > 0)
    return fmt::format("{} in {} would feed it; {} of {} CPUs are in use.",
                       counted(std::min(more, free), "more thread"), owner.name, report.making.threads, report.cpus);
  return all_cpus_in_use(report.cpus) + ": cheaper work or more CPUs would help.";
}

std::string explain_stages(const PipelineReport& report) {
  const auto& stages = report.stages;
  const double stall = report.stall_share();
  if (stall <= kFed)
    return fmt::format("The consumer is the bottleneck: it waited {:.1f} % of its time, and took {:.0f} a second.",
                       100 * stall, report.elements_per_second());
  const auto groups = groups_of(stages);
  const auto most =
      std::max_element(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.load() < b.load(); });
  double work = 0;
  for (const StageReport& stage : stages) work += stage.seconds;
  const StageReport& slowest = stages[static_cast<std::size_t>(std::max(most->slowest, 0))];
  return fmt::format(
      "The pipeline is the bottleneck: the consumer waited {:.0f} % of its time, mostly for {} ({:.0f} % of the work). "
      "{}",
      100 * stall, slowest.name, 100 * share(slowest.seconds, work), advice(report, *most));
}

std::string stage_table(const PipelineReport& report) {
  std::string text = fmt::format("{:<18}{:>12}{:>12}{:>12}{:>11}{:>11}{:>15}{:>9}\n", "stage", "elements", "bytes each",
                                 "us each", "work s", "input s", "queue", "threads");
  for (const StageReport& stage : report.stages) {
    const auto count = static_cast<double>(std::max<std::int64_t>(stage.elements, 1));
    const std::string bytes = stage.bytes > 0 ? fmt::format("{:.0f}", static_cast<double>(stage.bytes) / count) : "-";
    const std::string queue = stage.most_depth > 0 ? fmt::format("{:.1f} of {}", stage.ready, stage.depth) : "-";
    const std::string threads =
        stage.most_threads > 0 ? fmt::format("{} of {}", stage.threads, stage.most_threads) : "-";
    text += fmt::format("{:<18}{:>12}{:>12}{:>12.2f}{:>11.3f}{:>11.3f}{:>15}{:>9}\n", stage.name, stage.elements, bytes,
                        1e6 * stage.seconds / count, stage.seconds, stage.waited, queue, threads);
  }
  for (const StageReport& stage : report.stages)
    if (!stage.last_tuning.empty()) text += fmt::format("last tuning   {}: {}\n", stage.name, stage.last_tuning);
  return text;
}

// ---- The steps of open_images()

double all_steps(const PipelineReport& report) {
  double seconds = 0;
  for (const StepReport& step : report.steps) seconds += step.seconds;
  return seconds;
}

// "decode, resize (94 % of the threads' work)"
std::string slowest_step(const PipelineReport& report) {
  const auto most = std::max_element(report.steps.begin(), report.steps.end(),
                                     [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  if (most == report.steps.end()) return "the work";
  return fmt::format("{} ({:.0f} % of the threads' work)", most->name, 100 * share(most->seconds, all_steps(report)));
}

std::string step_table(const PipelineReport& report) {
  std::string text =
      fmt::format("{:<18}{:>12}{:>10}{:>14}{:>14}\n", "step", "thread s", "share", "us each", "bytes each");
  const double all = all_steps(report);
  for (const StepReport& step : report.steps) {
    const auto count = static_cast<double>(std::max<std::int64_t>(step.count, 1));
    text += fmt::format("{:<18}{:>12.3f}{:>9.1f}%{:>14.2f}{:>14.0f}\n", step.name, step.seconds,
                        100 * share(step.seconds, all), 1e6 * step.seconds / count,
                        static_cast<double>(step.bytes) / count);
  }
  return text;
}

}  // namespace

double PipelineReport::elements_per_second() const noexcept {
  return share(static_cast<double>(elements), making.seconds);
}
double PipelineReport::stall_share() const noexcept { return std::min(share(making.waited, making.seconds), 1.0); }
double PipelineReport::capacity() const noexcept {
  const double busy = making.working + making.pulling;
  return share(static_cast<double>(elements) * std::max(making.threads, 1), busy);
}

PipelineReport report_of(std::vector<StageReport> stages, int processes) {
  PipelineReport report;
  report.cpus = given_cpus(processes);
  if (stages.empty()) return report;
  ThreadPoolStats& making = report.making;
  for (const StageReport& stage : stages) {
    making.threads += stage.threads;
    making.most_threads += stage.most_threads;
    making.idle += stage.idle;
    making.working += stage.seconds;
  }
  const StageReport& last = stages.back();
  making.depth = last.depth;
  making.most_depth = last.most_depth;
  making.ready = last.ready;
  making.seconds = last.age;
  making.waited = last.held;
  making.taken = making.tasks = report.elements = last.elements;
  report.batch_bytes = last.bytes / std::max<std::int64_t>(last.elements, 1);
  report.stages = std::move(stages);
  return report;
}

std::string explain(const PipelineReport& report) {
  const ThreadPoolStats& making = report.making;
  if (report.elements == 0) return "nothing was delivered yet";
  if (report.steps.empty() && !report.stages.empty()) return explain_stages(report);
  const std::string step = slowest_step(report);
  if (making.threads == 0)
    return fmt::format(
        "There are no threads: the consumer makes the batches itself, in {:.0f} % of its time, mostly with {}; threads "
        "would work ahead of it.",
        100 * report.stall_share(), step);
  if (report.stall_share() <= kFed)
    return fmt::format(
        "The consumer is the bottleneck: it waited {:.1f} % of its time. {} can deliver {:.0f} a second; it took "
        "{:.0f}.",
        100 * report.stall_share(), counted(making.threads, "thread"), report.capacity(), report.elements_per_second());
  const double busy = share(making.working + making.pulling, making.seconds);
  const double missing = report.stall_share() / std::max(1 - report.stall_share(), 1e-6) * busy;
  const std::string text =
      fmt::format("The pipeline is the bottleneck: the consumer waited {:.0f} % of its time, mostly for {}. ",
                  100 * report.stall_share(), step);
  const double idle = share(making.idle, making.seconds * making.threads);
  if (idle > kIdleShare)
    return text + fmt::format(
                      "Its threads were idle for {:.0f} % of theirs: the consumer takes in bursts, and more batches "
                      "ahead (now {}) would help.",
                      100 * idle, making.depth);
  const auto more = static_cast<std::int64_t>(std::min(std::ceil(missing), 1e6));
  if (making.threads + more <= report.cpus)
    return text + fmt::format("{} would feed it; {} of {} CPUs are in use.", counted(more, "more thread"),
                              making.threads, report.cpus);
  const std::string needed =
      report.stall_share() < kOnlyTakes ? fmt::format(", and {} more would be needed", more) : std::string();
  return text + all_cpus_in_use(report.cpus) + needed + ": a faster mode, smaller images or more CPUs would help.";
}

std::string to_table(const PipelineReport& report) {
  const ThreadPoolStats& making = report.making;
  std::string text;
  if (!report.stages.empty()) text += stage_table(report);
  if (!report.steps.empty()) text += step_table(report);
  if (report.stages.empty() || !report.steps.empty())
    text += fmt::format("queue         {:.1f} of {} batches ready when asked for (up to {}), {} each\n", making.ready,
                        making.depth, making.most_depth, human_bytes(static_cast<std::uint64_t>(report.batch_bytes)));
  text += fmt::format("threads       {} of up to {} ({} given), idle {:.1f} % of their time\n", making.threads,
                      making.most_threads, counted(report.cpus, "CPU"),
                      100 * share(making.idle, making.seconds * std::max(making.threads, 1)));
  text += fmt::format("consumer      took {:.1f} a second, waited {:.2f} % of its time\n", report.elements_per_second(),
                      100 * report.stall_share());
  if (report.stages.empty() && !making.last_tuning.empty())
    text += fmt::format("last tuning   {}\n", making.last_tuning);
  return text + explain(report) + "\n";
}

}  // namespace xoe::data

#include "data/tune/explain_stages.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "data/tune/cpus.h"

namespace xoe::data {
namespace {

constexpr double kBusy = 0.8;  // share of its time from which a thread counts as always at work
constexpr int kConsumer = -1;

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

// The stage whose threads run stage `at`, or the consumer.
int crew_of(const std::vector<StageReport>& stages, int at) {
  while (at >= 0 && stages[static_cast<std::size_t>(at)].most_threads == 0)
    at = stages[static_cast<std::size_t>(at)].feeds;
  return at < 0 ? kConsumer : at;
}

// The threads of one stage with all that they run, or the consumer's thread with what it runs.
struct Crew {
  int owner = kConsumer;
  double own = 0;     // seconds of the owner's work
  double inputs = 0;  // of the stages that it takes from
  int threads = 1;
  int pullers = 1;
  int slowest = kConsumer;  // the stage with most work in it
  bool serial = false;      // its inputs are what takes longest, however many threads there are

  // Seconds that its thread is busy, if the work is spread as it can be.
  double load() const { return std::max((own + inputs) / threads, inputs / pullers); }
};

std::vector<Crew> crews_of(const std::vector<StageReport>& stages) {
  std::vector<Crew> crews(stages.size() + 1);
  for (int at = 0; at < static_cast<int>(stages.size()); ++at) {
    const StageReport& stage = stages[static_cast<std::size_t>(at)];
    const int owner = crew_of(stages, at);
    Crew& crew = crews[static_cast<std::size_t>(owner + 1)];
    crew.owner = owner;
    (owner == at ? crew.own : crew.inputs) += stage.seconds;
    if (owner == at) {
      crew.threads = std::max(stage.threads, 1);
      crew.pullers = std::clamp(stage.pullers, 1, crew.threads);
    }
    if (crew.slowest == kConsumer || stage.seconds > stages[static_cast<std::size_t>(crew.slowest)].seconds)
      crew.slowest = at;
  }
  for (Crew& crew : crews)
    crew.serial = crew.owner != kConsumer && crew.pullers == 1 &&
                  crew.inputs >= (crew.own + crew.inputs) / crew.threads && crew.slowest != crew.owner;
  return crews;
}

// The queue that is nearest to the consumer.
const StageReport* last_queue(const std::vector<StageReport>& stages) {
  const auto found = std::find_if(stages.rbegin(), stages.rend(), [](const auto& stage) { return stage.depth > 0; });
  return found == stages.rend() ? nullptr : &*found;
}

std::string advice(const PipelineReport& report, const Crew& crew) {
  const auto& stages = report.stages;
  const StageReport* queue =
      crew.owner == kConsumer ? last_queue(stages) : &stages[static_cast<std::size_t>(crew.owner)];
  const double seconds = crew.owner == kConsumer ? report.making.waited : report.seconds();
  if (queue != nullptr && crew.load() < kBusy * seconds)
    return fmt::format(
        "No thread was busy all the time: elements come or go in bursts, and more ahead (now {} in {}) would help.",
        queue->depth, queue->name);
  if (crew.owner == kConsumer)
    return "It works in the consumer's own thread: prefetch() behind it, or map() with threads, would work ahead.";
  const StageReport& owner = stages[static_cast<std::size_t>(crew.owner)];
  if (crew.serial || owner.name == "prefetch")
    return fmt::format(
        "One thread of {} does it, an element after the other: map() or interleave() with threads would do several at "
        "a "
        "time.",
        owner.name);
  const double stall = std::min(report.stall_share(), 0.9);
  const auto more = static_cast<int>(std::ceil(crew.threads * stall / (1 - stall)));
  if (report.making.threads + 1 <= report.cpus)
    return fmt::format("{} more threads in {} would feed it; {} of {} CPUs are in use.",
                       std::min(more, report.cpus - report.making.threads), owner.name, report.making.threads,
                       report.cpus);
  return fmt::format("All {} CPUs that this process was given are in use: cheaper work or more CPUs would help.",
                     report.cpus);
}

}  // namespace

PipelineReport report_of(std::vector<StageReport> stages, int processes) {
  PipelineReport report;
  report.cpus = given_cpus(processes);
  if (stages.empty()) return report;
  WorkshopStats& making = report.making;
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
  making.taken = making.pieces = report.elements = last.elements;
  report.batch_bytes = last.bytes / std::max<std::int64_t>(last.elements, 1);
  report.stages = std::move(stages);
  return report;
}

std::string explain_stages(const PipelineReport& report) {
  const auto& stages = report.stages;
  const double stall = report.stall_share();
  if (stall <= kFed)
    return fmt::format("The consumer is the bottleneck: it waited {:.1f} % of its time, and took {:.0f} a second.",
                       100 * stall, report.elements_per_second());
  const auto crews = crews_of(stages);
  const auto most =
      std::max_element(crews.begin(), crews.end(), [](const Crew& a, const Crew& b) { return a.load() < b.load(); });
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

}  // namespace xoe::data

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/text.h"
#include "data/tune/explain_stages.h"
#include "xoe/data/report.h"

namespace xoe::data {
namespace {

constexpr double kHardlyWorking =
    0.9;  // share of stalling from which a consumer takes whatever comes, as a benchmark does

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

const StepReport* slowest(const PipelineReport& report) {
  const auto most = std::max_element(report.steps.begin(), report.steps.end(),
                                     [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  return most == report.steps.end() ? nullptr : &*most;
}

double all_steps(const PipelineReport& report) {
  double seconds = 0;
  for (const StepReport& step : report.steps) seconds += step.seconds;
  return seconds;
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

std::string explain(const PipelineReport& report) {
  const WorkshopStats& making = report.making;
  if (report.elements == 0) return "nothing was delivered yet";
  if (report.steps.empty() && !report.stages.empty()) return explain_stages(report);
  const StepReport* most = slowest(report);
  const std::string step = most == nullptr ? "the work"
                                           : fmt::format("{} ({:.0f} % of the threads' work)", most->name,
                                                         100 * share(most->seconds, all_steps(report)));
  if (making.threads == 0)
    return fmt::format(
        "There are no threads: the consumer makes the batches itself, in {:.0f} % of its time, mostly with {}; threads "
        "would "
        "work ahead of it.",
        100 * report.stall_share(), step);
  if (report.stall_share() <= kFed)
    return fmt::format(
        "The consumer is the bottleneck: it waited {:.1f} % of its time. {} threads can deliver {:.0f} "
        "a second; it took {:.0f}.",
        100 * report.stall_share(), making.threads, report.capacity(), report.elements_per_second());
  const double busy = share(making.working + making.pulling, making.seconds);
  const double missing = report.stall_share() / std::max(1 - report.stall_share(), 1e-6) * busy;
  std::string text =
      fmt::format("The pipeline is the bottleneck: the consumer waited {:.0f} % of its time, mostly for {}. ",
                  100 * report.stall_share(), step);
  if (making.idle > 0.1 * making.seconds * std::max(making.threads, 1))
    return text + fmt::format(
                      "Threads were idle {:.0f} % of theirs meanwhile: it takes in bursts, more batches ahead "
                      "(now {}) would help.",
                      100 * share(making.idle, making.seconds * std::max(making.threads, 1)), making.depth);
  const double more = std::ceil(missing);
  if (making.threads + more <= report.cpus)
    return text +
           fmt::format("{} more threads would feed it; {} of {} CPUs are in use.", more, making.threads, report.cpus);
  const std::string needed =
      report.stall_share() < kHardlyWorking ? fmt::format(" and {} more would be needed", more) : std::string();
  return text + fmt::format(
                    "All {} CPUs that this process was given are in use{}: a faster mode, smaller images or more CPUs "
                    "would help.",
                    report.cpus, needed);
}

namespace {

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

std::string to_table(const PipelineReport& report) {
  const WorkshopStats& making = report.making;
  std::string text;
  if (!report.stages.empty()) text += stage_table(report);
  if (!report.steps.empty()) text += step_table(report);
  if (report.stages.empty() || !report.steps.empty())
    text += fmt::format("queue         {:.1f} of {} batches ready when asked for (up to {}), {} each\n", making.ready,
                        making.depth, making.most_depth, human_bytes(static_cast<std::uint64_t>(report.batch_bytes)));
  text += fmt::format("threads       {} of up to {} ({} CPUs given), idle {:.1f} % of their time\n", making.threads,
                      making.most_threads, report.cpus,
                      100 * share(making.idle, making.seconds * std::max(making.threads, 1)));
  text += fmt::format("consumer      took {:.1f} a second, waited {:.2f} % of its time\n", report.elements_per_second(),
                      100 * report.stall_share());
  if (report.stages.empty() && !making.last_tuning.empty())
    text += fmt::format("last tuning   {}\n", making.last_tuning);
  return text + explain(report) + "\n";
}

}  // namespace xoe::data

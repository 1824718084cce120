#include "measure/cli/isolation.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text.h"
#include "measure/cli/compare.h"
#include "measure/cli/text_table.h"
#include "measure/pages/result_page.h"

namespace xoe::bench {
namespace {

std::string speed_text(const Spread& speed) { return fmt::format("{:.2f} +/- {:.2f}", speed.mean, speed.deviation); }

std::string percent_text(double share) { return fmt::format("{:.2f} %", share * 100); }

const TableRow kHead = {"job", "images/s alone", "together", "interference", "95 % interval"};

std::string title_of(const Isolation& isolation) {
  return fmt::format("{} of {}, {} each", counted(std::ssize(isolation.jobs), "job"), isolation.model,
                     counted(isolation.ranks, "rank"));
}

std::vector<TableRow> rows_of(const Isolation& isolation, const IsolationReport& report) {
  std::vector<TableRow> rows;
  for (std::size_t i = 0; i < report.jobs.size(); ++i) {
    const JobReport& job = report.jobs[i];
    rows.push_back({fmt::format("{} on {}", i, isolation.jobs[i].place), speed_text(job.alone),
                    speed_text(job.together), percent_text(job.interference),
                    fmt::format("{} to {}", percent_text(job.interval.low), percent_text(job.interval.high))});
  }
  rows.push_back({"all", fmt::format("{:.2f}", report.alone), fmt::format("{:.2f}", report.together),
                  percent_text(report.interference), ""});
  return rows;
}

}  // namespace

std::vector<int> cpus_of(const cpu_set_t& set) {
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

Result<std::vector<std::vector<int>>> part_cpus(const std::vector<int>& cpus, int jobs) {
  const std::size_t each = cpus.size() / static_cast<std::size_t>(jobs);
  if (each == 0)
    return failure(Code::kInvalidArgument, "{} need as many CPUs, and this process may use {}", counted(jobs, "job"),
                   cpus.size());
  std::vector<std::vector<int>> parts;
  for (std::size_t job = 0; job < static_cast<std::size_t>(jobs); ++job) {
    const auto first = cpus.begin() + static_cast<std::ptrdiff_t>(job * each);
    parts.emplace_back(first, first + static_cast<std::ptrdiff_t>(each));
  }
  return parts;
}

std::string ranges_text(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[i]);
    if (last > i) text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

IsolationReport report_isolation(const Isolation& isolation, std::uint64_t seed) {
  IsolationReport report;
  for (const IsolatedJob& job : isolation.jobs) {
    const Interval change = bootstrap_change(job.alone, job.together, seed);
    JobReport one = {.alone = spread_of(job.alone),
                     .together = spread_of(job.together),
                     .interval = {.low = -change.high, .high = -change.low}};
    one.interference = 1 - one.together.mean / one.alone.mean;
    report.alone += one.alone.mean;
    report.together += one.together.mean;
    report.jobs.push_back(one);
  }
  report.interference = 1 - report.together / report.alone;
  if (report.jobs.front().alone.count < kFewestRuns)
    report.notes.push_back(fmt::format("fewer than {} rounds tell no interference from noise; measure with --rounds {}",
                                       kFewestRuns, kFewestRuns));
  if (isolation.emulated_images_per_s > 0)
    report.notes.push_back(fmt::format("EMULATION: ranks sleep as an accelerator of {:g} images/s would compute",
                                       isolation.emulated_images_per_s));
  return report;
}

std::string isolation_text(const Isolation& isolation, const IsolationReport& report) {
  std::string text = title_of(isolation) + "\n" + text_table(kHead, rows_of(isolation, report));
  for (const std::string& note : report.notes) text += fmt::format("note: {}\n", note);
  return text;
}

std::string isolation_page(const Isolation& isolation, const IsolationReport& report) {
  std::vector<PlotPoint> alone, together;
  std::vector<std::string> places;
  for (std::size_t i = 0; i < isolation.jobs.size(); ++i) {
    const auto x = static_cast<double>(i + 1);
    for (const double speed : isolation.jobs[i].alone) alone.push_back({x - 0.1, speed});
    for (const double speed : isolation.jobs[i].together) together.push_back({x + 0.1, speed});
    places.push_back(isolation.jobs[i].place);
  }
  return pages::result_html(
      {.title = title_of(isolation),
       .notes = report.notes,
       .figures = {{fmt::format("{:.2f}", report.alone), "images/s, the sum of the jobs alone"},
                   {fmt::format("{:.2f}", report.together), "images/s of all together"},
                   {percent_text(report.interference), "lost to each other"}},
       .plots = {{.id = "speed",
                  .title = "images/s of a job",
                  .lines = {{.label = "alone", .color = "first", .points = alone, .joined = false},
                            {.label = "together", .color = "second", .points = together, .joined = false}},
                  .axis = {.label = "job", .names = places}}},
       .x = {.low = 0.5, .high = static_cast<double>(places.size()) + 0.5},
       .tables = {{.title = "Jobs", .head = kHead, .rows = rows_of(isolation, report)}},
       .facts = {{"Environment", pages::facts_of_json(isolation.environment)}}});
}

nlohmann::ordered_json to_json(const Isolation& isolation, const IsolationReport& report) {
  auto jobs = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < report.jobs.size(); ++i)
    jobs.push_back({{"place", isolation.jobs[i].place},
                    {"alone", isolation.jobs[i].alone},
                    {"together", isolation.jobs[i].together},
                    {"interference", report.jobs[i].interference},
                    {"low", report.jobs[i].interval.low},
                    {"high", report.jobs[i].interval.high}});
  return {{"benchmark", "xoe bench isolate"},
          {"model", isolation.model},
          {"ranks", isolation.ranks},
          {"emulated_images_per_s", isolation.emulated_images_per_s},
          {"jobs", jobs},
          {"alone", report.alone},
          {"together", report.together},
          {"interference", report.interference},
          {"notes", report.notes}};
}

}  // namespace xoe::bench

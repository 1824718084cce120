#include "measure/cli/failures/failure_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "measure/cli/text_table.h"
#include "measure/pages/result_page.h"

namespace xoe::bench {
namespace {

const TableRow kHead = {"way",     "a failure every", "kills",        "seconds",
                        "goodput", "s per failure",   "steps redone", "starts"};

const FailureRun& undisturbed(const FailureStudy& study, const FailureRun& run) {
  return *std::ranges::find_if(study.runs,
                               [&](const FailureRun& one) { return one.way == run.way && one.mean_seconds == 0; });
}

std::vector<TableRow> rows_of(const FailureStudy& study) {
  std::vector<TableRow> rows;
  for (const FailureRun& run : study.runs) {
    const bool fails = run.mean_seconds > 0;
    rows.push_back({run.way, fails ? fmt::format("{:g} s", run.mean_seconds) : "never",
                    run.missed > 0 ? fmt::format("{} + {} missed", run.kills, run.missed) : fmt::to_string(run.kills),
                    fmt::format("{:.2f}", run.seconds), fmt::format("{:.1f} %", 100 * goodput_of(study, run)),
                    run.kills > 0 ? fmt::format("{:.2f}", seconds_per_failure(study, run)) : "-",
                    fmt::to_string(run.redone), fmt::to_string(run.starts)});
  }
  return rows;
}

std::string title_of(const FailureStudy& study) {
  return fmt::format("{} of {} under failures", counted(study.options.steps, "step"),
                     counted(study.options.ranks, "rank"));
}

std::vector<std::string> notes_of(const FailureStudy& study) {
  return {fmt::format("a checkpoint every {}; the same times and ranks of kills for all, seed {}",
                      counted(study.checkpoint_every, "step"), study.options.seed),
          "goodput: the time that the same way takes where nothing fails, as a share of its time",
          "missed: the rank had no process when it was to be killed"};
}

}  // namespace

double goodput_of(const FailureStudy& study, const FailureRun& run) {
  return run.seconds > 0 ? undisturbed(study, run).seconds / run.seconds : 0;
}

double seconds_per_failure(const FailureStudy& study, const FailureRun& run) {
  return run.kills > 0 ? (run.seconds - undisturbed(study, run).seconds) / run.kills : 0;
}

std::string failures_text(const FailureStudy& study) {
  std::string text = title_of(study) + "\n" + text_table(kHead, rows_of(study));
  for (const std::string& note : notes_of(study)) text += fmt::format("note: {}\n", note);
  return text;
}

nlohmann::ordered_json to_json(const FailureStudy& study) {
  auto runs = nlohmann::ordered_json::array();
  for (const FailureRun& run : study.runs)
    runs.push_back({{"way", run.way},
                    {"mean_seconds", run.mean_seconds},
                    {"seconds", run.seconds},
                    {"kills", run.kills},
                    {"missed", run.missed},
                    {"steps_redone", run.redone},
                    {"starts", run.starts},
                    {"goodput", goodput_of(study, run)},
                    {"seconds_per_failure", seconds_per_failure(study, run)}});
  return {{"benchmark", "xoe bench failures"},
          {"ranks", study.options.ranks},
          {"steps", study.options.steps},
          {"checkpoint_every", study.checkpoint_every},
          {"seed", study.options.seed},
          {"training", study.training},
          {"runs", runs}};
}

std::string failures_page(const FailureStudy& study) {
  constexpr std::array kColors = {"first", "second", "third", "fourth"};
  std::vector<std::pair<std::string, std::vector<PlotPoint>>> lines;  // by way
  double most = 1;
  for (const FailureRun& run : study.runs) {
    if (run.mean_seconds == 0)
      lines.emplace_back(run.way, std::vector<PlotPoint>());
    else
      lines.back().second.push_back({run.mean_seconds, goodput_of(study, run)});
    most = std::max(most, run.mean_seconds);
  }
  pages::PlotFigure plot = {
      .id = "goodput", .title = "goodput", .unit = PlotUnit::kShare, .axis = {.label = "seconds between failures"}};
  for (auto& [way, points] : lines) {
    std::ranges::sort(points, {}, [](const PlotPoint& point) { return point.x; });
    plot.lines.push_back(
        {.label = way, .color = kColors[plot.lines.size() % kColors.size()], .points = points, .dots = true});
  }
  return pages::result_html({.title = title_of(study),
                             .notes = notes_of(study),
                             .plots = {plot},
                             .x = {.low = 0, .high = most},
                             .tables = {{.title = "Runs", .head = kHead, .rows = rows_of(study)}},
                             .facts = {{"Training", {{"flags of xoe train", study.training}}}}});
}

}  // namespace xoe::bench

#include "measure/pages/report_page.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "measure/pages/result_page.h"

namespace xoe::pages {
namespace {

// Of all runs together; one run's values are coloured by what they were measured on, several by run.
PlotRange steps_of(std::span<const ReportedRun> runs) {
  PlotRange steps = {.low = 0, .high = 1};
  for (const ReportedRun& run : runs)
    for (const auto* curve :
         {&run.record.curves.loss, &run.record.curves.held_out_loss, &run.record.curves.held_out_accuracy})
      if (!curve->empty()) steps.high = std::max(steps.high, curve->back().x);
  return steps;
}

std::vector<PlotFigure> plots_of(const RunCurves& curves) {
  return {
      {.id = "loss",
       .title = "loss",
       .lines = {{.label = "training", .color = "first", .points = curves.loss, .smooth = true},
                 {.label = "held out", .color = "second", .points = curves.held_out_loss, .dots = true}}},
      {.id = "accuracy",
       .title = "accuracy",
       .lines = {{.label = "training", .color = "first", .points = curves.accuracy, .smooth = true},
                 {.label = "held out", .color = "second", .points = curves.held_out_accuracy, .dots = true}},
       .unit = PlotUnit::kShare},
      {.id = "speed", .title = "images/s, all ranks", .lines = {{.color = "second", .points = curves.images_per_s}}},
      {.id = "rate", .title = "learning rate", .lines = {{.color = "first", .points = curves.rate}}}};
}

// A line for each run.
std::vector<PlotFigure> plots_of(std::span<const ReportedRun> runs) {
  struct Curve {
    std::string_view id, title;
    std::vector<PlotPoint> RunCurves::*points;
    PlotUnit unit = PlotUnit::kNumber;
    bool dots = false, smooth = false;
  };
  constexpr std::array kCurves = {
      Curve{"loss", "training loss", &RunCurves::loss, PlotUnit::kNumber, false, true},
      Curve{"held-out-loss", "held-out loss", &RunCurves::held_out_loss, PlotUnit::kNumber, true},
      Curve{"accuracy", "training accuracy", &RunCurves::accuracy, PlotUnit::kShare, false, true},
      Curve{"held-out-accuracy", "held-out accuracy", &RunCurves::held_out_accuracy, PlotUnit::kShare, true},
      Curve{"speed", "images/s, all ranks", &RunCurves::images_per_s},
      Curve{"rate", "learning rate", &RunCurves::rate}};
  std::vector<PlotFigure> figures;
  for (const Curve& curve : kCurves) {
    PlotFigure figure = {
        .id = std::string(curve.id), .title = std::string(curve.title), .lines = {}, .unit = curve.unit};
    for (std::size_t i = 0; i < runs.size(); ++i)
      figure.lines.push_back({.label = runs[i].folder,
                              .color = line_color(i),
                              .points = runs[i].record.curves.*curve.points,
                              .dots = curve.dots,
                              .smooth = curve.smooth});
    figures.push_back(std::move(figure));
  }
  return figures;
}

std::string speed_text(const RunRecord& record) {
  if (!record.images_per_s) return {};
  return record.images_per_s_uncertainty
             ? fmt::format("{:.1f} ± {:.1f}", *record.images_per_s, *record.images_per_s_uncertainty)
             : fmt::format("{:.1f}", *record.images_per_s);
}

std::string steps_text(const RunRecord& record) {
  if (!record.step) return {};
  return record.total_steps ? fmt::format("{:.0f} of {:.0f}", *record.step, *record.total_steps)
                            : fmt::format("{:.0f}", *record.step);
}

std::string time_text(const RunRecord& record) {
  return record.seconds ? human_seconds(std::round(*record.seconds * 10) / 10) : std::string();
}

std::string last_of(const std::vector<PlotPoint>& curve) {
  return curve.empty() ? std::string() : fmt::format("{:.4g}", curve.back().y);
}

std::string last_percent(const std::vector<PlotPoint>& curve) {
  return curve.empty() ? std::string() : fmt::format("{:.1f} %", curve.back().y * 100);
}

std::vector<KeyFigure> figures_of(const RunRecord& record) {
  const RunCurves& curves = record.curves;
  std::vector<KeyFigure> figures;
  const auto add = [&figures](std::string value, std::string name) {
    if (!value.empty()) figures.push_back({.value = std::move(value), .name = std::move(name)});
  };
  if (!curves.held_out_accuracy.empty()) {
    const auto best = std::ranges::max(curves.held_out_accuracy, {}, &PlotPoint::y);
    add(last_percent(curves.held_out_accuracy),
        best.y > curves.held_out_accuracy.back().y
            ? fmt::format("held-out accuracy; best {:.1f} % at step {:g}", best.y * 100, best.x)
            : std::string("held-out accuracy"));
  }
  add(last_of(curves.held_out_loss), "held-out loss");
  add(last_of(curves.loss), "training loss");
  add(speed_text(record), "images/s of all ranks");
  add(steps_text(record), "steps");
  add(time_text(record), "time");
  return figures;
}

std::string findings_table(std::string_view heading, std::vector<DoctorFinding> findings) {
  if (findings.empty()) return {};
  std::ranges::stable_sort(findings, {}, &DoctorFinding::weight);
  const auto fine = std::ranges::find(findings, 3, &DoctorFinding::weight);
  std::string html = fmt::format("<h2>{}</h2>\n", html_text(heading));
  const auto row = [](const DoctorFinding& finding) {
    const std::string known = finding.weight() < 2 ? " " + finding.state : "";
    return fmt::format("<tr><td class=\"state{}\">{}<td>{}<td class=\"name\">{}{}\n", known, html_text(finding.state),
                       html_text(finding.group), html_text(finding.what),
                       finding.fix.empty() || finding.weight() == 3
                           ? ""
                           : "<br><span class=\"faint\">fix: " + html_text(finding.fix) + "</span>");
  };
  const auto table = [&row](auto first, auto last) {
    std::string text = "<div class=\"tablebox\"><table><tbody>\n";
    for (auto at = first; at != last; ++at) text += row(*at);
    return text + "</tbody></table></div>\n";
  };
  if (fine != findings.begin()) html += table(findings.begin(), fine);
  if (fine != findings.end())
    html += fmt::format("<details><summary>{} without fault, or not checked</summary>\n",
                        counted(findings.end() - fine, "check")) +
            table(fine, findings.end()) + "</details>\n";
  return html;
}

using RankShares = std::array<double, 4>;

std::vector<Share> shares_of(const RankShares& shares) {
  const auto& [data, compute, peers, optimizer] = shares;
  return {{"compute", "computing", compute},
          {"optimizer", "updating parameters", optimizer},
          {"input", "waiting for data", data},
          {"communication", "reducing, and waiting for others", peers}};
}

RankShares mean_of(const std::vector<RankShares>& ranks) {
  RankShares mean = {};
  for (const RankShares& shares : ranks)
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += shares[i] / static_cast<double>(ranks.size());
  return mean;
}

std::string state_of(const RunRecord& record) {
  if (!record.ended) return "no end was written: the run was killed, or is still running";
  return record.interrupted ? "interrupted" : "done";
}

ResultPage page_of_one(const ReportedRun& run) {
  const RunRecord& record = run.record;
  ResultPage page = {.title = record.title.empty() ? run.folder : record.title,
                     .subtitle = fmt::format("{}: {}", run.folder, state_of(record)),
                     .notes = record.notes,
                     .figures = figures_of(record),
                     .plots = plots_of(record.curves),
                     .x = steps_of({&run, 1}),
                     .shares_text = "Of each rank, over all steps that were reported."};
  if (record.curves.empty()) page.notes.emplace_back("no report was written yet");
  for (std::size_t rank = 0; rank < record.rank_shares.size(); ++rank)
    page.shares.emplace_back(fmt::format("rank {}", rank), shares_of(record.rank_shares[rank]));
  if (run.timeline) page.timelines.emplace_back("Timeline", &*run.timeline);
  page.facts = {{"Configuration", record.configuration}, {"Environment", record.environment}};
  page.appendix = findings_table("What xoe doctor found", record.doctor);
  return page;
}

ResultTable table_of(std::span<const ReportedRun> runs) {
  ResultTable table = {.title = "Runs",
                       .head = {"run", "network", "images/s", "held-out accuracy", "held-out loss", "training loss",
                                "steps", "time", "state"},
                       .rows = {}};
  for (const auto& [folder, record, timeline] : runs) {
    const RunCurves& curves = record.curves;
    table.rows.push_back({folder, record.title, speed_text(record), last_percent(curves.held_out_accuracy),
                          last_of(curves.held_out_loss), last_of(curves.loss), steps_text(record), time_text(record),
                          record.ended ? state_of(record) : "no end"});
  }
  return table;
}

// Configuration and environment: a row for each name, in the order in which runs tell them.
void add_facts(std::span<const ReportedRun> runs, ResultPage& page) {
  std::vector<std::string> names;
  std::vector<std::map<std::string, std::string>> values;
  for (const ReportedRun& run : runs) {
    auto& own = values.emplace_back();
    for (const Facts* facts : {&run.record.configuration, &run.record.environment})
      for (const auto& [name, value] : *facts)
        if (own.emplace(name, value).second && std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  ResultTable differences = {
      .title = "Configuration and environment: what differs", .head = {""}, .rows = {}, .cells = Cells::kTexts};
  for (const ReportedRun& run : runs) differences.head.push_back(run.folder);
  Facts common;
  for (const std::string& name : names) {
    std::vector<std::string> row = {name};
    for (auto& own : values) row.push_back(own[name]);
    if (std::all_of(row.begin() + 1, row.end(), [&row](const std::string& value) { return value == row[1]; }))
      common.emplace_back(name, row[1]);
    else
      differences.rows.push_back(std::move(row));
  }
  page.facts = {{"Configuration and environment of all", std::move(common)}};
  page.tables.push_back(std::move(differences));
}

ResultPage page_of_several(std::span<const ReportedRun> runs) {
  ResultPage page = {.title = fmt::format("{} side by side", counted(std::ssize(runs), "run")),
                     .plots = plots_of(runs),
                     .x = steps_of(runs),
                     .tables = {table_of(runs)},
                     .shares_text = "Means over each run's ranks and over all steps that were reported."};
  for (const ReportedRun& run : runs) {
    const RunRecord& record = run.record;
    for (const std::string& note : record.notes) page.notes.push_back(run.folder + ": " + note);
    if (record.curves.empty()) page.notes.push_back(run.folder + ": no report was written yet");
    if (!record.rank_shares.empty()) page.shares.emplace_back(run.folder, shares_of(mean_of(record.rank_shares)));
    if (run.timeline) page.timelines.emplace_back("Timeline of " + run.folder, &*run.timeline);
    page.appendix += findings_table("What xoe doctor found for " + run.folder, record.doctor);
  }
  add_facts(runs, page);
  return page;
}

}  // namespace

std::string report_page(std::span<const ReportedRun> runs) {
  return result_html(runs.size() == 1 ? page_of_one(runs.front()) : page_of_several(runs));
}

}  // namespace xoe::pages

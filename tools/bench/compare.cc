#include "tools/bench/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "pages/plot_figure.h"
#include "pages/timeline_page.h"
#include "tools/bench/text_table.h"

namespace xoe::bench {
namespace {

using Json = nlohmann::ordered_json;

Verdict verdict_of(const Spread& before, const Spread& after, const Interval& interval) {
  if (std::min(before.count, after.count) < kFewestRuns) return Verdict::kTooFewRuns;
  if (interval.low > 0) return Verdict::kFaster;
  return interval.high < 0 ? Verdict::kSlower : Verdict::kNoise;
}

// Each of what two results should have in common, as text.
std::vector<std::pair<std::string_view, std::string>> workload(const TrainResult& result) {
  return {{"model", result.model},
          {"mode", result.mode},
          {"device", result.device},
          {"precision", result.precision},
          {"optimizer", result.optimizer},
          {"image size", result.image_size},
          {"batch", fmt::to_string(result.batch)},
          {"ranks", fmt::to_string(result.ranks)},
          {"hosts", fmt::to_string(result.hosts)},
          {"threads", fmt::to_string(result.threads)},
          {"emulated accelerator", fmt::format("{:g}", result.emulated_images_per_s)},
          {"processor", result.processor}};
}

std::vector<std::string> differences(const std::vector<NamedResult>& results) {
  std::vector<std::string> notes;
  const auto first = workload(results.front().result);
  for (std::size_t i = 1; i < results.size(); ++i) {
    const auto other = workload(results[i].result);
    for (std::size_t fact = 0; fact < first.size(); ++fact)
      if (first[fact].second != other[fact].second)
        notes.push_back(fmt::format("{} differs: {} in {}, {} in {}", first[fact].first, first[fact].second,
                                    results.front().name, other[fact].second, results[i].name));
  }
  for (const NamedResult& one : results)
    if (one.result.emulated_images_per_s > 0)
      notes.push_back(fmt::format("EMULATION: {} is of ranks that sleep in place of computing", one.name));
  return notes;
}

std::string percent(double change) { return fmt::format("{:+.2f} %", change * 100); }

std::vector<TableRow> speed_rows(const Comparison& comparison) {
  std::vector<TableRow> rows;
  for (std::size_t i = 0; i < comparison.results.size(); ++i) {
    const ComparedResult& one = comparison.compared[i];
    const bool baseline = one.verdict == Verdict::kBaseline;
    rows.push_back({comparison.results[i].name, fmt::to_string(one.speed.count), fmt::format("{:.2f}", one.speed.mean),
                    fmt::format("{:.2f}", one.speed.deviation), baseline ? "" : percent(one.change),
                    baseline ? "" : fmt::format("{} to {}", percent(one.interval.low), percent(one.interval.high)),
                    std::string(verdict_text(one.verdict))});
  }
  return rows;
}

const TableRow kSpeedHead = {"result", "runs", "images/s", "deviation", "change", "95 % interval", "verdict"};
const TableRow kPartsHead = {"ms of a step", "input", "forward", "backward", "exposed", "optimizer", "hidden"};

std::vector<TableRow> part_rows(const Comparison& comparison) {
  std::vector<TableRow> rows;
  for (const NamedResult& one : comparison.results) {
    const StepParts& parts = one.result.parts;
    TableRow row = {one.name};
    for (const double ms : {parts.input, parts.forward, parts.backward, parts.exposed, parts.optimizer})
      row.push_back(fmt::format("{:.3f}", ms));
    row.push_back(parts.hidden < 0 ? "" : fmt::format("{:.3f}", parts.hidden));
    rows.push_back(std::move(row));
  }
  return rows;
}

// Runs as dots, and for each result its interval as an upright line.
void add_plot(pages::Page& page, const Comparison& comparison) {
  const double baseline = comparison.compared.front().speed.mean;
  std::vector<PlotPoint> runs;
  std::vector<std::vector<PlotPoint>> intervals;
  for (std::size_t i = 0; i < comparison.results.size(); ++i) {
    const auto x = static_cast<double>(i + 1);
    for (const double speed : comparison.results[i].result.speeds()) runs.push_back({x, speed / baseline - 1});
    const Interval& interval = comparison.compared[i].interval;
    if (i > 0) intervals.push_back({{x, interval.low}, {x, interval.high}});
  }
  pages::PlotFigure figure = {.id = "change",
                              .title = "change of images/s from the first result",
                              .lines = {{.label = "a run", .color = "first", .points = runs, .joined = false}},
                              .x_label = "result"};
  for (const auto& interval : intervals)
    figure.lines.push_back({.label = &interval == &intervals.front() ? "95 % interval of the mean" : "",
                            .color = "second",
                            .points = interval});
  pages::add_plots(page, {&figure, 1}, {.low = 0, .high = static_cast<double>(comparison.results.size() + 1)});
}

}  // namespace

std::string_view verdict_text(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::kBaseline: return "baseline";
    case Verdict::kFaster: return "faster";
    case Verdict::kSlower: return "slower";
    case Verdict::kNoise: return "noise";
    case Verdict::kTooFewRuns: return "too few runs";
  }
  return {};
}

Comparison compare_results(std::vector<NamedResult> results, std::uint64_t seed) {
  Comparison comparison;
  comparison.notes = differences(results);
  const std::vector<double> baseline = results.front().result.speeds();
  const Spread before = spread_of(baseline);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::vector<double> speeds = results[i].result.speeds();
    ComparedResult one = {.speed = spread_of(speeds), .interval = {}};
    if (i > 0) {
      one.change = one.speed.mean / before.mean - 1;
      one.interval = bootstrap_change(baseline, speeds, seed);
      one.verdict = verdict_of(before, one.speed, one.interval);
    }
    comparison.compared.push_back(one);
  }
  if (std::ranges::any_of(comparison.compared, [](const auto& one) { return one.verdict == Verdict::kTooFewRuns; }))
    comparison.notes.push_back(fmt::format("fewer than {} runs tell no difference from noise; measure with --repeat {}",
                                           kFewestRuns, kFewestRuns));
  comparison.results = std::move(results);
  return comparison;
}

std::string comparison_text(const Comparison& comparison) {
  std::string text = text_table(kSpeedHead, speed_rows(comparison)) + '\n';
  text += text_table(kPartsHead, part_rows(comparison));
  for (const std::string& note : comparison.notes) text += fmt::format("note: {}\n", note);
  return text;
}

Json to_json(const Comparison& comparison) {
  Json results = Json::array();
  for (std::size_t i = 0; i < comparison.results.size(); ++i) {
    const ComparedResult& one = comparison.compared[i];
    results.push_back({{"result", comparison.results[i].name},
                       {"runs", one.speed.count},
                       {"images_per_s", one.speed.mean},
                       {"deviation", one.speed.deviation},
                       {"change", one.change},
                       {"low", one.interval.low},
                       {"high", one.interval.high},
                       {"verdict", verdict_text(one.verdict)}});
  }
  return {{"benchmark", "xoe bench compare"}, {"results", results}, {"notes", comparison.notes}};
}

std::string comparison_page(const Comparison& comparison) {
  pages::Page page;
  page.title = fmt::format("{}: {} compared", comparison.results.front().result.model,
                           counted(std::ssize(comparison.results), "result"));
  page.body = fmt::format("<header><h1>{}</h1></header>\n", pages::html_text(page.title));
  page.body += pages::note_list(comparison.notes);
  page.body += "<h2>Speed</h2>\n" + pages::number_table(kSpeedHead, speed_rows(comparison));
  add_plot(page, comparison);
  page.body += "<h2>Parts of a step</h2>\n" + pages::number_table(kPartsHead, part_rows(comparison));
  return pages::html_of(page);
}

}  // namespace xoe::bench

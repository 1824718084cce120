#include "measure/cli/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/base/text.h"
#include "measure/cli/text_table.h"
#include "measure/pages/bars.h"
#include "measure/pages/result_page.h"

namespace xoe::bench {
namespace {

using Json = nlohmann::ordered_json;

Verdict verdict_of(const Spread& before, const Spread& after, const Interval& interval, bool less_is_better) {
  if (std::min(before.count, after.count) < kFewestRuns) return Verdict::kTooFewRuns;
  if (interval.low > 0) return less_is_better ? Verdict::kWorse : Verdict::kBetter;
  if (interval.high < 0) return less_is_better ? Verdict::kBetter : Verdict::kWorse;
  return Verdict::kNoise;
}

ComparedQuantity compare_quantity(std::vector<Measurement> results, std::uint64_t seed) {
  ComparedQuantity quantity;
  const Measurement& first = results.front();
  const Spread before = spread_of(first.runs);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::vector<double>& runs = results[i].runs;
    ComparedResult one = {.spread = spread_of(runs), .interval = {}};
    if (i > 0) {
      one.change = one.spread.mean / before.mean - 1;
      one.interval = bootstrap_change(first.runs, runs, seed);
      one.verdict = verdict_of(before, one.spread, one.interval, first.less_is_better);
    }
    quantity.compared.push_back(one);
  }
  quantity.results = std::move(results);
  return quantity;
}

void add_once(std::vector<std::string>& notes, std::string note) {
  if (std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
}

void add_differences(const std::vector<Measurement>& results, std::vector<std::string>& notes) {
  const Measurement& first = results.front();
  for (std::size_t i = 1; i < results.size(); ++i)
    for (const auto& [fact, value] : results[i].workload) {
      const auto known = std::ranges::find(first.workload, fact, &std::pair<std::string, std::string>::first);
      if (known != first.workload.end() && known->second != value)
        add_once(notes, fmt::format("{} differs: {} in {}, {} in {}", fact, known->second, first.name, value,
                                    results[i].name));
    }
  for (const Measurement& one : results)
    if (one.emulated_images_per_s > 0)
      add_once(notes, fmt::format("EMULATION: {} is of ranks that sleep in place of computing", one.name));
}

std::string percent(double change) { return fmt::format("{:+.2f} %", change * 100); }

TableRow head_of(const ComparedQuantity& quantity) {
  return {"result", "runs", quantity.results.front().quantity, "deviation", "change", "95 % interval", "verdict"};
}

std::vector<TableRow> rows_of(const ComparedQuantity& quantity) {
  std::vector<TableRow> rows;
  for (std::size_t i = 0; i < quantity.results.size(); ++i) {
    const ComparedResult& one = quantity.compared[i];
    const bool baseline = one.verdict == Verdict::kBaseline;
    rows.push_back({quantity.results[i].name, fmt::to_string(one.spread.count), fmt::format("{:.2f}", one.spread.mean),
                    fmt::format("{:.2f}", one.spread.deviation), baseline ? "" : percent(one.change),
                    baseline ? "" : fmt::format("{} to {}", percent(one.interval.low), percent(one.interval.high)),
                    std::string(verdict_text(one.verdict))});
  }
  return rows;
}

const TableRow kPartsHead = {"ms of a step", "input", "forward", "backward", "exposed", "optimizer", "hidden"};

// Of the results that tell them.
std::vector<TableRow> part_rows(const Comparison& comparison) {
  std::vector<TableRow> rows;
  for (const ComparedQuantity& quantity : comparison.quantities)
    for (const Measurement& one : quantity.results) {
      if (!one.parts) continue;
      TableRow row = {one.name};
      for (const double ms :
           {one.parts->input, one.parts->forward, one.parts->backward, one.parts->exposed, one.parts->optimizer})
        row.push_back(fmt::format("{:.3f}", ms));
      row.push_back(one.parts->hidden < 0 ? "" : fmt::format("{:.3f}", one.parts->hidden));
      rows.push_back(std::move(row));
    }
  return rows;
}

// What a plot of one quantity shows: runs as dots, and for each result its interval as an upright line.
struct PlottedQuantity {
  explicit PlottedQuantity(const ComparedQuantity& quantity) {
    const double baseline = quantity.compared.front().spread.mean;
    for (std::size_t i = 0; i < quantity.results.size(); ++i) {
      const auto x = static_cast<double>(i + 1);
      names.push_back(quantity.results[i].name);
      for (const double run : quantity.results[i].runs) runs.push_back({x, run / baseline - 1});
      const Interval& interval = quantity.compared[i].interval;
      if (i > 0) intervals.push_back({{x, interval.low}, {x, interval.high}});
    }
  }

  pages::PlotFigure figure(const std::string& id, const std::string& quantity) const {
    pages::PlotFigure figure = {.id = id,
                                .title = fmt::format("{}: change from {}", quantity, names.front()),
                                .lines = {{.label = "a run", .color = "first", .points = runs, .joined = false}},
                                .unit = PlotUnit::kChange,
                                .axis = {.label = "result", .names = names}};
    for (const auto& interval : intervals)
      figure.lines.push_back({.label = &interval == &intervals.front() ? "95 % interval of the mean" : "",
                              .color = "second",
                              .points = interval});
    return figure;
  }

  std::vector<std::string> names;
  std::vector<PlotPoint> runs;
  std::vector<std::vector<PlotPoint>> intervals;
};

std::string value_text(double value) {
  return value >= 1000 && value < 1e7 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

// The means, and how many times the first one each of the others is.
pages::BarGroup bars_of(const ComparedQuantity& quantity) {
  const Measurement& first = quantity.results.front();
  const double baseline = quantity.compared.front().spread.mean;
  pages::BarGroup group = {.title = first.quantity, .bars = {}};
  for (std::size_t i = 0; i < quantity.results.size(); ++i) {
    const double mean = quantity.compared[i].spread.mean;
    group.bars.push_back({.name = quantity.results[i].name,
                          .value = mean,
                          .text = value_text(mean) + (i == 0 ? "" : fmt::format(" ({:.3g}x)", mean / baseline)),
                          .marked = quantity.results[i].series == first.series});
  }
  return group;
}

std::string title_of(const Comparison& comparison) {
  if (!comparison.title.empty()) return comparison.title;
  return fmt::format("{} compared", counted(std::ssize(comparison.quantities.front().results), "result"));
}

}  // namespace

std::string_view verdict_text(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::kBaseline: return "baseline";
    case Verdict::kBetter: return "faster";
    case Verdict::kWorse: return "slower";
    case Verdict::kNoise: return "noise";
    case Verdict::kTooFewRuns: return "too few runs";
  }
  return {};
}

std::vector<Measurement> results_of(std::vector<std::pair<std::string, MeasurementFile>> files) {
  using Key = std::pair<std::string, std::string>;  // name, quantity
  std::map<Key, int> count;                         // of files
  for (const auto& [path, file] : files) {
    std::set<Key> own;
    for (const Measurement& one : file.measurements) own.emplace(one.name, one.quantity);
    for (const Key& key : own) ++count[key];
  }
  std::vector<Measurement> results;
  for (auto& [path, file] : files)
    for (Measurement& one : file.measurements) {
      if (count[{one.name, one.quantity}] > 1) one.name += fmt::format(" in {}", path);
      results.push_back(std::move(one));
    }
  return results;
}

Comparison compare_results(std::vector<Measurement> results, std::uint64_t seed) {
  Comparison comparison;
  while (!results.empty()) {
    const std::string quantity = results.front().quantity;
    const auto rest = std::stable_partition(results.begin(), results.end(),
                                            [&quantity](const auto& one) { return one.quantity == quantity; });
    std::vector<Measurement> same(std::make_move_iterator(results.begin()), std::make_move_iterator(rest));
    results.erase(results.begin(), rest);
    add_differences(same, comparison.notes);
    comparison.quantities.push_back(compare_quantity(std::move(same), seed));
  }
  const auto uncertain = [](const ComparedQuantity& quantity) {
    return std::ranges::any_of(quantity.compared, [](const auto& one) { return one.verdict == Verdict::kTooFewRuns; });
  };
  if (std::ranges::any_of(comparison.quantities, uncertain))
    comparison.notes.push_back(fmt::format("fewer than {} runs tell no difference from noise; measure with --repeat {}",
                                           kFewestRuns, kFewestRuns));
  return comparison;
}

std::string comparison_text(const Comparison& comparison) {
  std::string text;
  for (const ComparedQuantity& quantity : comparison.quantities)
    text += text_table(head_of(quantity), rows_of(quantity)) + '\n';
  if (const auto parts = part_rows(comparison); !parts.empty()) text += text_table(kPartsHead, parts);
  for (const std::string& note : comparison.notes) text += fmt::format("note: {}\n", note);
  return text;
}

Json to_json(const Comparison& comparison) {
  Json results = Json::array();
  for (const ComparedQuantity& quantity : comparison.quantities)
    for (std::size_t i = 0; i < quantity.results.size(); ++i) {
      const ComparedResult& one = quantity.compared[i];
      results.push_back({{"result", quantity.results[i].name},
                         {"quantity", quantity.results[i].quantity},
                         {"runs", one.spread.count},
                         {"mean", one.spread.mean},
                         {"deviation", one.spread.deviation},
                         {"change", one.change},
                         {"low", one.interval.low},
                         {"high", one.interval.high},
                         {"verdict", verdict_text(one.verdict)}});
    }
  return {{"benchmark", "xoe bench compare"}, {"results", results}, {"notes", comparison.notes}};
}

std::string comparison_page(const Comparison& comparison) {
  const ComparedQuantity& first = comparison.quantities.front();
  pages::ResultPage page = {.title = title_of(comparison),
                            .subtitle = fmt::format("The first, {}, is the baseline.", first.results.front().name),
                            .notes = comparison.notes,
                            .x = {.low = 0.5, .high = static_cast<double>(first.results.size()) + 0.5}};
  std::vector<PlottedQuantity> plotted;
  for (const ComparedQuantity& quantity : comparison.quantities) {
    const std::string& name = quantity.results.front().quantity;
    pages::BarGroup bars = bars_of(quantity);
    bars.title.clear();  // that of the table
    page.tables.push_back({.title = name,
                           .picture = pages::bars_svg("", std::span(&bars, 1), pages::kPageBarColors),
                           .head = head_of(quantity),
                           .rows = rows_of(quantity)});
    page.x.high = std::max(page.x.high, static_cast<double>(quantity.results.size()) + 0.5);
    plotted.emplace_back(quantity);
  }
  for (std::size_t i = 0; i < plotted.size(); ++i)
    page.plots.push_back(
        plotted[i].figure(fmt::format("change-{}", i), comparison.quantities[i].results.front().quantity));
  page.tables.push_back({.title = "Parts of a step", .head = kPartsHead, .rows = part_rows(comparison)});
  page.facts = environments_of(first.results);
  return pages::result_html(page);
}

std::string comparison_svg(const Comparison& comparison) {
  std::vector<pages::BarGroup> groups;
  std::ranges::transform(comparison.quantities, std::back_inserter(groups), bars_of);
  return pages::bars_svg(title_of(comparison), groups);
}

}  // namespace xoe::bench

// The page of `xoe bench collectives`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/text.h"
#include "core/command_line/machine_facts.h"
#include "measure/cli/collectives/collective_table.h"
#include "measure/pages/result_page.h"

namespace xoe::bench {
namespace {

constexpr std::size_t kMostLines = 6;  // of a plot: as many as have a colour

// Rows of the same collective, type and reduction, by size.
struct Line {
  std::string name;
  std::vector<PlotPoint> bandwidth, time;  // log2 of bytes; GB/s, log10 of us
};

// The better of both ways of calling it.
const CollectiveTiming* best_of(const CollectiveRow& row) {
  if (!row.in_place) return row.out_of_place ? &*row.out_of_place : nullptr;
  return row.out_of_place && row.out_of_place->us < row.in_place->us ? &*row.out_of_place : &*row.in_place;
}

std::string name_of(const CollectiveCase& one) {
  return fmt::format("{} {}{}", collective_name(one.kind), nccl_type_name(one.dtype),
                     reduces(one.kind) ? fmt::format(" {}", nccl_op_name(one.op)) : "");
}

std::vector<Line> lines_of(const CollectiveReport& report) {
  std::vector<Line> lines;
  for (const CollectiveRow& row : report.rows) {
    const CollectiveTiming* timing = best_of(row);
    if (timing == nullptr || row.one.bytes() == 0) continue;
    const std::string name = name_of(row.one);
    auto line = std::ranges::find(lines, name, &Line::name);
    if (line == lines.end()) line = lines.insert(lines.end(), {.name = name, .bandwidth = {}, .time = {}});
    const double size = std::log2(static_cast<double>(row.one.bytes()));
    line->bandwidth.push_back({size, row.bus_bandwidth(*timing)});
    line->time.push_back({size, std::log10(std::max(timing->us, 1e-3))});
  }
  return lines;
}

pages::PlotFigure figure_of(const std::string& id, const std::string& title, const std::vector<Line>& lines,
                            std::vector<PlotPoint> Line::*points) {
  pages::PlotFigure figure = {.id = id, .title = title, .axis = {.label = "bytes", .powers_of_two = true}};
  for (std::size_t i = 0; i < std::min(lines.size(), kMostLines); ++i)
    figure.lines.push_back(
        {.label = lines[i].name, .color = pages::line_color(i), .points = lines[i].*points, .dots = true});
  if (points == &Line::time) figure.unit = PlotUnit::kPowerOfTen;
  return figure;
}

std::string number_text(double value) { return fmt::format("{:.{}f}", value, value < 100 ? 2 : 0); }

void add_timing(const CollectiveRow& row, const std::optional<CollectiveTiming>& timing,
                std::vector<std::string>& cells) {
  if (!timing) {
    cells.resize(cells.size() + 4);
    return;
  }
  cells.insert(cells.end(), {number_text(timing->us), number_text(row.algorithm_bandwidth(*timing)),
                             number_text(row.bus_bandwidth(*timing)),
                             timing->wrong ? fmt::to_string(*timing->wrong) : std::string("N/A")});
}

std::vector<std::vector<std::string>> rows_of(const CollectiveReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const CollectiveRow& row : report.rows) {
    rows.push_back({name_of(row.one), fmt::to_string(row.one.bytes()), fmt::to_string(row.one.block)});
    add_timing(row, row.out_of_place, rows.back());
    add_timing(row, row.in_place, rows.back());
  }
  return rows;
}

pages::Facts environment_of(const CollectiveReport& report) {
  const command_line::MachineFacts machine = command_line::machine_facts();
  std::set<std::string> hosts;
  for (const CollectiveRank& rank : report.ranks) hosts.insert(rank.host);
  return {{"started", report.started},
          {"ended", report.ended},
          {"hosts", fmt::format("{}", fmt::join(hosts, " "))},
          {"command", fmt::format("{}", fmt::join(report.command, " "))},
          {"xoe", machine.version},
          {"system", machine.system},
          {"processor", machine.processor},
          {"processors", fmt::to_string(machine.processors)},
          {"memory", machine.memory}};
}

}  // namespace

std::string collectives_page(const CollectiveReport& report) {
  const std::vector<Line> lines = lines_of(report);
  pages::ResultPage page = {
      .title = fmt::format("Collectives of {} over {}", counted(std::ssize(report.ranks), "rank"), report.backend),
      .subtitle = fmt::format("{} memory{}", report.memory, report.rewrite ? ", rewritten before each collective" : ""),
      .figures = {{fmt::format("{:.3g} GB/s", report.average_bus_bandwidth()), "mean bus bandwidth of all rows"},
                  {report.check ? fmt::to_string(report.wrong()) : "not checked", "wrong values"}},
      .plots = {figure_of("bandwidth", "bus bandwidth, GB/s", lines, &Line::bandwidth),
                figure_of("time", "time, us", lines, &Line::time)},
      .tables = {{.title = "As nccl-tests shows it",
                  .text = "First out of place, then in place: time in us, bandwidths in GB/s, wrong values.",
                  .head = {"collective", "bytes", "count", "time", "algbw", "busbw", "wrong", "time", "algbw", "busbw",
                           "wrong"},
                  .rows = rows_of(report)}},
      .facts = {{"Configuration",
                 {{"backend", report.backend},
                  {"memory", report.memory},
                  {"timed collectives", fmt::to_string(report.iterations)},
                  {"those before them", fmt::to_string(report.warmup)}}},
                {"Environment", environment_of(report)}}};
  if (lines.size() > kMostLines)
    page.notes.push_back(fmt::format("plots show the first {} of {} kinds of collective", kMostLines, lines.size()));
  if (!lines.empty()) {
    page.x = {.low = lines.front().time.front().x, .high = lines.front().time.front().x + 1};
    for (const Line& line : lines)
      for (const PlotPoint& point : line.time) {
        page.x.low = std::min(page.x.low, std::floor(point.x));
        page.x.high = std::max(page.x.high, std::ceil(point.x));
      }
  }
  return pages::result_html(page);
}

}  // namespace xoe::bench

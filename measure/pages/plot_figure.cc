#include "measure/pages/plot_figure.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/base/svg.h"
#include "core/base/utf8.h"
#include "core/trace/text.h"
#include "measure/pages/assets.h"

namespace xoe::pages {
namespace {

constexpr double kWidth = 460;
constexpr double kHeight = 250;
constexpr PlotPanel::Place kPlace = {.left = 60, .top = 12, .width = 384, .height = 190};
constexpr std::size_t kMostRead = 2000;  // points whose values the pointer reads

double highest(const PlotFigure& plot) {
  double high = plot.unit == PlotUnit::kShare ? 1 : 0;
  for (const PlotLine& line : plot.lines)
    for (const PlotPoint& point : line.points) high = std::max(high, point.y);
  return high > 0 || plot.unit == PlotUnit::kChange ? high : 1;
}

bool in_percent(const PlotFigure& plot) { return plot.unit == PlotUnit::kShare || plot.unit == PlotUnit::kChange; }

double lowest(const PlotFigure& plot) {
  double low = 0;
  for (const PlotLine& line : plot.lines)
    for (const PlotPoint& point : line.points) low = std::min(low, point.y);
  return low;
}

std::string names_json(std::span<const std::string> names) {
  std::string out = "[";
  for (const std::string& name : names) {
    out += out.back() == '[' ? "\"" : ",\"";
    trace::append_json_text(out, printable_utf8(name));
    out += '"';
  }
  return out + "]";
}

// The values, for the script that reads them under the pointer.
std::string values_json(const PlotFigure& plot, const PlotPanel& panel) {
  const PlotPanel::Place& place = panel.place();
  std::string out = fmt::format(
      R"("{}":{{"left":{},"right":{},"top":{},"bottom":{},"low":{},"high":{},"percent":{},"tens":{},"powers":{},"label":"{}","names":{},"lines":[)",
      plot.id, place.left, place.left + place.width, place.top, place.top + place.height, panel.x().low, panel.x().high,
      in_percent(plot), plot.unit == PlotUnit::kPowerOfTen, plot.axis.powers_of_two, plot.axis.label,
      names_json(plot.axis.names));
  for (const PlotLine& line : plot.lines) {
    if (out.back() != '[') out += ',';
    out += "{\"points\":[";
    const std::size_t stride = std::max<std::size_t>(1, (line.points.size() + kMostRead - 1) / kMostRead);
    for (std::size_t i = 0; i < line.points.size(); i += stride)
      out += fmt::format("{}[{:.10g},{:.6g}]", i == 0 ? "" : ",", line.points[i].x, line.points[i].y);
    out += "]}";
  }
  return out + "]}";
}

void add_plot(const PlotFigure& plot, PlotRange x, std::string& html, std::string& values) {
  if (std::ranges::all_of(plot.lines, [](const PlotLine& line) { return line.points.empty(); })) return;
  Svg svg(kWidth, kHeight, kPageColors);
  PlotPanel panel(svg, kPlace, x, {.low = lowest(plot), .high = highest(plot)}, plot.unit, plot.axis);
  html += fmt::format("<div class=\"plot\" id=\"{}\"><h3>{}", plot.id, html_text(plot.title));
  for (const PlotLine& line : plot.lines) {
    if (line.points.empty()) continue;
    const std::string color = fmt::format("var(--{})", line.color);
    if (!line.label.empty())
      html += fmt::format(" <span><i style=\"background:{}\"></i>{}</span>", color, html_text(line.label));
    if (line.joined) panel.line(line.points, color, line.smooth ? 1 : 2.2, line.smooth ? 0.35 : 1);
    if (line.smooth) panel.line(smoothed(line.points), color, 2.2);
    if (line.dots || !line.joined || line.points.size() == 1) panel.dots(line.points, color);
  }
  html += " <span class=\"read\"></span></h3>\n" + std::move(svg).finish() + "</div>\n";
  if (!values.empty()) values += ",\n";
  values += values_json(plot, panel);
}

}  // namespace

std::string_view line_color(std::size_t number) noexcept {
  constexpr std::array kColors = {"first", "second", "third", "fourth", "fifth", "sixth"};
  return kColors[number % kColors.size()];
}

bool add_plots(Page& page, std::span<const PlotFigure> figures, PlotRange x) {
  std::string html;
  std::string values;
  for (const PlotFigure& figure : figures) add_plot(figure, x, html, values);
  if (html.empty()) return false;
  page.body += "<div class=\"plots\">\n" + html + "</div>\n";
  page.data.emplace_back("plots-data", "{" + values + "}");
  page.scripts.push_back(assets::kPlotsJs);
  return true;
}

std::string table_html(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows,
                       Cells cells) {
  std::string html = fmt::format("<div class=\"tablebox\"><table class=\"{}\"><thead><tr>",
                                 cells == Cells::kNumbers ? "numbers" : "texts");
  for (std::size_t i = 0; i < head.size(); ++i)
    html += fmt::format("<th{}>{}", i == 0 ? " class=\"name\"" : "", html_text(head[i]));
  html += "</thead><tbody>\n";
  for (const auto& row : rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      html += fmt::format("<td{}>{}", i == 0 ? " class=\"name\"" : "", html_text(row[i]));
    html += "\n";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace xoe::pages

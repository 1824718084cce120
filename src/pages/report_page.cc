#include "pages/report_page.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "pages/assets.h"

namespace xoe::pages {
namespace {

constexpr double kWidth = 460;
constexpr double kHeight = 250;
constexpr PlotPanel::Place kPlace = {.left = 60, .top = 12, .width = 384, .height = 190};
constexpr std::size_t kMostRead = 2000;  // points whose values the pointer reads

struct Line {
  std::string_view label;
  std::string_view color;  // class and variable of the style sheet
  std::span<const PlotPoint> points;
  bool dots = false;
  bool smooth = false;  // the values themselves are drawn faintly
};

struct Plot {
  std::string_view id;
  std::string_view title;
  std::vector<Line> lines;
  bool percent = false;
};

double highest(const Plot& plot) {
  double high = plot.percent ? 1 : 0;
  for (const Line& line : plot.lines)
    for (const PlotPoint& point : line.points) high = std::max(high, point.y);
  return high > 0 ? high : 1;
}

double lowest(const Plot& plot) {
  double low = 0;
  for (const Line& line : plot.lines)
    for (const PlotPoint& point : line.points) low = std::min(low, point.y);
  return low;
}

// The values, for the script that reads them under the pointer.
std::string values_json(const Plot& plot, const PlotPanel& panel) {
  const PlotPanel::Place& place = panel.place();
  std::string out =
      fmt::format(R"("{}":{{"left":{},"right":{},"top":{},"bottom":{},"low":{},"high":{},"percent":{},"lines":[)",
                  plot.id, place.left, place.left + place.width, place.top, place.top + place.height, panel.x().low,
                  panel.x().high, plot.percent);
  for (const Line& line : plot.lines) {
    if (out.back() != '[') out += ',';
    out += "{\"points\":[";
    const std::size_t stride = std::max<std::size_t>(1, (line.points.size() + kMostRead - 1) / kMostRead);
    for (std::size_t i = 0; i < line.points.size(); i += stride)
      out += fmt::format("{}[{:.10g},{:.6g}]", i == 0 ? "" : ",", line.points[i].x, line.points[i].y);
    out += "]}";
  }
  return out + "]}";
}

void add_plot(const Plot& plot, PlotRange steps, std::string& html, std::string& values) {
  if (std::all_of(plot.lines.begin(), plot.lines.end(), [](const Line& line) { return line.points.empty(); })) return;
  Svg svg(kWidth, kHeight, kPageColors);
  PlotPanel panel(svg, kPlace, steps, {.low = lowest(plot), .high = highest(plot)}, plot.percent);
  html += fmt::format("<div class=\"plot\" id=\"{}\"><h3>{}", plot.id, plot.title);
  for (const Line& line : plot.lines) {
    if (line.points.empty()) continue;
    const std::string color = fmt::format("var(--{})", line.color);
    if (!line.label.empty()) html += fmt::format(" <span><i class=\"{}\"></i>{}</span>", line.color, line.label);
    panel.line(line.points, color, line.smooth ? 1 : 2.2, line.smooth ? 0.35 : 1);
    if (line.smooth) panel.line(smoothed(line.points), color, 2.2);
    if (line.dots || line.points.size() == 1) panel.dots(line.points, color);
  }
  html += " <span class=\"read\"></span></h3>\n" + std::move(svg).finish() + "</div>\n";
  if (!values.empty()) values += ",\n";
  values += values_json(plot, panel);
}

void add_curves(Page& page, const RunCurves& curves) {
  PlotRange steps = {.low = 0, .high = 1};
  for (const auto* curve : {&curves.loss, &curves.held_out_loss, &curves.held_out_accuracy})
    if (!curve->empty()) steps.high = std::max(steps.high, curve->back().x);
  std::string html;
  std::string values;
  add_plot({"loss",
            "loss",
            {{"training", "first", curves.loss, false, true}, {"held out", "second", curves.held_out_loss, true}}},
           steps, html, values);
  add_plot(
      {"accuracy",
       "accuracy",
       {{"training", "first", curves.accuracy, false, true}, {"held out", "second", curves.held_out_accuracy, true}},
       true},
      steps, html, values);
  add_plot({"speed", "images/s, all ranks", {{"", "second", curves.images_per_s}}}, steps, html, values);
  add_plot({"rate", "learning rate", {{"", "first", curves.rate}}}, steps, html, values);
  if (html.empty()) {
    page.body += "<p class=\"faint\">No report was written yet.</p>\n";
    return;
  }
  page.body += "<div class=\"plots\">\n" + html + "</div>\n";
  page.data.emplace_back("plots-data", "{" + values + "}");
  page.scripts.push_back(assets::kPlotsJs);
}

std::string figure(std::string_view name, const std::string& value) {
  return fmt::format("<div><b>{}</b><span>{}</span></div>\n", html_text(value), html_text(name));
}

std::string figures(const RunRecord& record) {
  const RunCurves& curves = record.curves;
  std::string html;
  if (!curves.held_out_accuracy.empty()) {
    const auto best = std::ranges::max(curves.held_out_accuracy, {}, &PlotPoint::y);
    const PlotPoint& last = curves.held_out_accuracy.back();
    html += figure(best.y > last.y ? fmt::format("held-out accuracy; best {:.1f} % at step {:g}", best.y * 100, best.x)
                                   : std::string("held-out accuracy"),
                   fmt::format("{:.1f} %", last.y * 100));
  }
  if (!curves.held_out_loss.empty())
    html += figure("held-out loss", fmt::format("{:.4g}", curves.held_out_loss.back().y));
  if (!curves.loss.empty()) html += figure("training loss", fmt::format("{:.4g}", curves.loss.back().y));
  if (record.images_per_s)
    html += figure("images/s of all ranks",
                   record.images_per_s_uncertainty
                       ? fmt::format("{:.1f} ± {:.1f}", *record.images_per_s, *record.images_per_s_uncertainty)
                       : fmt::format("{:.1f}", *record.images_per_s));
  if (record.step)
    html += figure("steps", record.total_steps ? fmt::format("{:.0f} of {:.0f}", *record.step, *record.total_steps)
                                               : fmt::format("{:.0f}", *record.step));
  if (record.seconds) html += figure("time", human_seconds(std::round(*record.seconds * 10) / 10));
  return html.empty() ? html : "<div class=\"figures\">\n" + html + "</div>\n";
}

std::string facts_table(std::string_view title, const Facts& facts) {
  if (facts.empty()) return {};
  std::string html = fmt::format("<div class=\"tablebox\"><h2>{}</h2>\n<table class=\"facts\"><tbody>\n", title);
  for (const auto& [name, value] : facts) html += fmt::format("<tr><th>{}<td>{}\n", html_text(name), html_text(value));
  return html + "</tbody></table></div>\n";
}

int weight(const std::string& state) {
  return state == "problem" ? 0 : state == "warning" ? 1 : state == "note" ? 2 : 3;
}

std::string findings_table(std::vector<DoctorFinding> findings) {
  if (findings.empty()) return {};
  std::stable_sort(findings.begin(), findings.end(),
                   [](const DoctorFinding& a, const DoctorFinding& b) { return weight(a.state) < weight(b.state); });
  const auto fine =
      std::find_if(findings.begin(), findings.end(), [](const DoctorFinding& each) { return weight(each.state) == 3; });
  std::string html = "<h2>What xoe doctor found</h2>\n";
  const auto row = [](const DoctorFinding& finding) {
    const std::string known = weight(finding.state) < 2 ? " " + finding.state : "";
    return fmt::format("<tr><td class=\"state{}\">{}<td>{}<td class=\"name\">{}{}\n", known, html_text(finding.state),
                       html_text(finding.group), html_text(finding.what),
                       finding.fix.empty() || weight(finding.state) == 3
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

std::string shares_of(const RunRecord& record) {
  std::vector<std::pair<std::string, std::vector<Share>>> rows;
  for (std::size_t rank = 0; rank < record.rank_shares.size(); ++rank) {
    const auto& [data, compute, peers, optimizer] = record.rank_shares[rank];
    rows.emplace_back(fmt::format("rank {}", rank),
                      std::vector<Share>{{"compute", "computing", compute},
                                         {"optimizer", "updating parameters", optimizer},
                                         {"input", "waiting for data", data},
                                         {"communication", "reducing, and waiting for others", peers}});
  }
  return rows.empty() ? ""
                      : "<h2>Where each rank's time went</h2>\n<p class=\"faint\">All steps that were reported.</p>\n" +
                            share_bars(rows);
}

std::string state_of(const RunRecord& record) {
  if (!record.ended) return "no end was written: the run was killed, or is still running";
  return record.interrupted ? "interrupted" : "done";
}

}  // namespace

std::string report_page(const RunRecord& record, const std::string& folder, const Timeline* timeline) {
  Page page;
  page.title = record.title.empty() ? folder : record.title;
  page.body = fmt::format("<header><h1>{}</h1>\n<p class=\"faint\">{}: {}</p></header>\n", html_text(page.title),
                          html_text(folder), state_of(record));
  page.body += note_list(record.notes) + figures(record);
  add_curves(page, record.curves);
  page.body += shares_of(record);
  if (timeline != nullptr) {
    page.body += "<section><h2>Timeline</h2>\n";
    add_timeline(page, *timeline);
    page.body += "</section>\n";
  }
  const std::string tables =
      facts_table("Configuration", record.configuration) + facts_table("Environment", record.environment);
  if (!tables.empty()) page.body += "<div class=\"tables\">\n" + tables + "</div>\n";
  page.body += findings_table(record.doctor);
  return html_of(page);
}

}  // namespace xoe::pages

#include "measure/pages/result_page.h"

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::pages {
namespace {

void add_tables(Page& page, const std::vector<ResultTable>& tables) {
  for (const ResultTable& table : tables) {
    if (table.rows.empty()) continue;
    if (!table.title.empty()) page.body += fmt::format("<h2>{}</h2>\n", html_text(table.title));
    if (!table.text.empty()) page.body += fmt::format("<p class=\"faint\">{}</p>\n", html_text(table.text));
    if (!table.picture.empty()) page.body += fmt::format("<div class=\"picture\">{}</div>\n", table.picture);
    page.body += table_html(table.head, table.rows, table.cells);
  }
}

void add_shares(Page& page, const ResultPage& result) {
  if (result.shares.empty()) return;
  page.body += "<h2>Where the time went</h2>\n";
  if (!result.shares_text.empty())
    page.body += fmt::format("<p class=\"faint\">{}</p>\n", html_text(result.shares_text));
  page.body += share_bars(result.shares);
}

}  // namespace

std::string result_html(const ResultPage& result) {
  Page page{.title = result.title, .body = {}, .data = {}, .scripts = {}};
  page.body = head_html(result.title, result.subtitle) + note_list(result.notes) + key_figures(result.figures);
  add_plots(page, result.plots, result.x);
  add_tables(page, result.tables);
  add_shares(page, result);
  for (const auto& [heading, timeline] : result.timelines) {
    page.body += "<section>\n";
    if (!heading.empty()) page.body += fmt::format("<h2>{}</h2>\n", html_text(heading));
    add_timeline(page, *timeline);
    page.body += "</section>\n";
  }
  page.body += fact_tables(result.facts);
  page.body += result.appendix;
  return html_of(page);
}

std::string head_html(std::string_view title, std::string_view subtitle) {
  return fmt::format("<header><h1>{}</h1>\n{}</header>\n", html_text(title),
                     subtitle.empty() ? "" : fmt::format("<p class=\"faint\">{}</p>", html_text(subtitle)));
}

std::string key_figures(const std::vector<KeyFigure>& figures) {
  if (figures.empty()) return {};
  std::string html = "<div class=\"figures\">\n";
  for (const KeyFigure& figure : figures)
    html += fmt::format("<div><b>{}</b><span>{}</span></div>\n", html_text(figure.value), html_text(figure.name));
  return html + "</div>\n";
}

std::string fact_tables(const std::vector<std::pair<std::string, Facts>>& facts) {
  std::string tables;
  for (const auto& [title, names] : facts) {
    if (names.empty()) continue;
    tables += fmt::format("<div class=\"tablebox\"><h2>{}</h2>\n<table class=\"facts\"><tbody>\n", html_text(title));
    for (const auto& [name, value] : names)
      tables += fmt::format("<tr><th>{}<td>{}\n", html_text(name), html_text(value));
    tables += "</tbody></table></div>\n";
  }
  return tables.empty() ? tables : "<div class=\"tables\">\n" + tables + "</div>\n";
}

std::string timeline_page(const Timeline& timeline, const std::string& title) {
  const auto& summary = timeline.summary;
  return result_html({.title = title,
                      .subtitle = fmt::format(
                          "{}, {}, {}", counted(static_cast<std::int64_t>(summary.ranks.size()), "rank"),
                          counted(static_cast<std::int64_t>(timeline.view.events + timeline.view.left_out), "event"),
                          time_text(summary.wall_ns)),
                      .timelines = {{"", &timeline}}});
}

}  // namespace xoe::pages

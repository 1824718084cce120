// The form that pages about runs and measurements have in common: what was measured in short, plots, tables, where the
// time went, timelines, configuration and environment.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "measure/pages/facts.h"
#include "measure/pages/page.h"
#include "measure/pages/plot_figure.h"
#include "measure/pages/timeline_figure.h"

namespace xoe::pages {

struct KeyFigure {
  std::string value;
  std::string name;
};

struct ResultTable {
  std::string title = {};
  std::string text = {};     // below the title
  std::string picture = {};  // SVG, above the table
  std::vector<std::string> head = {};
  std::vector<std::vector<std::string>> rows = {};  // as long as `head`
  Cells cells = Cells::kNumbers;
};

// Empty parts leave nothing in the page.
struct ResultPage {
  std::string title = {};
  std::string subtitle = {};
  std::vector<std::string> notes = {};
  std::vector<KeyFigure> figures = {};
  std::vector<PlotFigure> plots = {};
  PlotRange x = {};  // of all plots
  std::vector<ResultTable> tables = {};
  std::string shares_text = {};
  std::vector<std::pair<std::string, std::vector<Share>>> shares = {};  // of time, by rank or result
  std::vector<std::pair<std::string, const Timeline*>> timelines = {};  // heading, what it shows
  std::vector<std::pair<std::string, Facts>> facts = {};                // heading, names and values
  std::string appendix = {};                                            // HTML
};

std::string result_html(const ResultPage& result);

// The page of a timeline alone.
std::string timeline_page(const Timeline& timeline, const std::string& title);

// Parts of other pages, as HTML; empty for nothing.

std::string head_html(std::string_view title, std::string_view subtitle);
std::string key_figures(const std::vector<KeyFigure>& figures);
// Side by side where there is room.
std::string fact_tables(const std::vector<std::pair<std::string, Facts>>& facts);

}  // namespace xoe::pages

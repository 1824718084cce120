// Plots within a page, whose values the pointer reads, and tables.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/plot.h"
#include "measure/pages/page.h"

namespace xoe::pages {

struct PlotLine {
  std::string_view label = {};
  std::string_view color = {};  // variable of the style sheet: first to sixth
  std::span<const PlotPoint> points = {};
  bool dots = false;
  bool smooth = false;  // the values themselves are drawn faintly
  bool joined = true;   // false: dots alone
};

struct PlotFigure {
  std::string id = {};  // of the element; unique in the page
  std::string title = {};
  std::vector<PlotLine> lines = {};
  PlotUnit unit = PlotUnit::kNumber;
  XAxis axis = {};
};

// Of lines that are told apart: first to sixth, and so on from the first.
std::string_view line_color(std::size_t number) noexcept;

// Adds those that have points, side by side. At most once a page. False: none has.
bool add_plots(Page& page, std::span<const PlotFigure> figures, PlotRange x);

// What the cells of a table are, but for the first of each row.
enum class Cells : unsigned char { kNumbers, kTexts };

// A table as HTML.
std::string table_html(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows,
                       Cells cells);

}  // namespace xoe::pages

// Plots within a page, whose values the pointer reads, and tables.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/plot.h"
#include "pages/page.h"

namespace xoe::pages {

struct PlotLine {
  std::string_view label = {};
  std::string_view color = {};  // class and variable of the style sheet: first, second
  std::span<const PlotPoint> points = {};
  bool dots = false;
  bool smooth = false;  // the values themselves are drawn faintly
  bool joined = true;   // false: dots alone
};

struct PlotFigure {
  std::string_view id = {};  // of the element; unique in the page
  std::string_view title = {};
  std::vector<PlotLine> lines = {};
  bool percent = false;
  std::string_view x_label = "step";
};

// Adds those that have points, side by side. At most once a page. False: none has.
bool add_plots(Page& page, std::span<const PlotFigure> figures, PlotRange x);

// A table as HTML. The cells are texts; all but the first of a row are numbers.
std::string number_table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows);

}  // namespace xoe::pages

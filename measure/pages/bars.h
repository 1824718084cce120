// Bars of values by name, in groups that each have a scale of their own.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/svg.h"
#include "measure/pages/page.h"

namespace xoe::pages {

struct Bar {
  std::string name;
  double value = 0;     // positive
  std::string text;     // behind it
  bool marked = false;  // in a colour of its own
};

struct BarGroup {
  std::string title;
  std::vector<Bar> bars;  // at least one
};

struct BarColors {
  Svg::Colors texts = {};
  std::string_view marked = "#0b8a74";
  std::string_view others = "#b9c3cc";
};
inline constexpr BarColors kPageBarColors = {.texts = kPageColors, .marked = "var(--first)", .others = "var(--rest)"};

inline constexpr double kBarsWidth = 820;
inline constexpr double kBarsLetter = 7.5;  // width of a letter beside a bar, in a wide font

// An SVG picture of that width. Titles that are empty take no room.
std::string bars_svg(std::string_view title, std::span<const BarGroup> groups, const BarColors& colors = {});

}  // namespace xoe::pages

#include "core/base/svg.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "core/base/utf8.h"

namespace xoe {
namespace {

template <class... Args>
void add(std::string& text, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
}

// Control characters and broken UTF-8 would make the document unreadable.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable_utf8(text)) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

}  // namespace

Svg::Svg(double width, double height, const Colors& colors) : colors_(colors) {
  add(text_,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"system-ui, sans-serif\">\n",
      width, height);
  if (colors.ground.empty()) return;
  add(text_, "<rect width=\"{}\" height=\"{}\" rx=\"6\" fill=\"{}\" stroke=\"{}\"/>\n", width, height, colors.ground,
      colors.grid);
}

void Svg::text(double x, double y, Anchor anchor, std::string_view color, int size, std::string_view text) {
  constexpr std::string_view kAnchors[] = {"start", "middle", "end"};
  add(text_, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\" font-size=\"{}\">{}</text>\n", x, y,
      kAnchors[static_cast<unsigned>(anchor)], color, size, escaped(text));
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view color, std::string_view dash) {
  add(text_, "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"", x1, y1, x2, y2, color);
  if (!dash.empty()) add(text_, " stroke-dasharray=\"{}\"", dash);
  text_ += "/>\n";
}

void Svg::rect(double x, double y, double width, double height, std::string_view color, std::string_view tip) {
  add(text_, "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"", x, y, width, height,
      color);
  if (tip.empty())
    text_ += "/>\n";
  else
    add(text_, "><title>{}</title></rect>\n", escaped(tip));
}

void Svg::circle(double x, double y, double radius, std::string_view color) {
  add(text_, "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\"/>\n", x, y, radius, color);
}

void Svg::begin_path(std::string_view color, double width, double opacity) {
  add(text_,
      "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-opacity=\"{}\" stroke-linejoin=\"round\" "
      "stroke-linecap=\"round\" points=\"",
      color, width, opacity);
}

void Svg::point(double x, double y) { add(text_, "{:.1f},{:.1f} ", x, y); }

std::string Svg::finish() && { return std::move(text_) + "</svg>\n"; }

}  // namespace xoe

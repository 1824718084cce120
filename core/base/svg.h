// Writes a picture as an SVG document.
#pragma once

#include <string>
#include <string_view>

namespace xoe {

class Svg {
 public:
  static constexpr std::string_view kInk = "#24292f";
  static constexpr std::string_view kFaint = "#6e7781";
  static constexpr std::string_view kGrid = "#e3e7eb";

  struct Colors {
    std::string_view ink = kInk;      // headings
    std::string_view faint = kFaint;  // axes and their labels
    std::string_view grid = kGrid;
    std::string_view ground = "#ffffff";  // empty: what lies below shows through
  };
  // A card of this size. The colours may be any of CSS, also var(--ink) of a page that holds the picture.
  Svg(double width, double height, const Colors& colors);
  Svg(double width, double height) : Svg(width, height, Colors{}) {}
  const Colors& colors() const noexcept { return colors_; }

  enum class Anchor : unsigned char { kStart, kMiddle, kEnd };
  void text(double x, double y, Anchor anchor, std::string_view color, int size, std::string_view text);
  // dash: as in stroke-dasharray; empty: a solid line.
  void line(double x1, double y1, double x2, double y2, std::string_view color, std::string_view dash = {});
  // tip: what the pointer shows; empty: nothing.
  void rect(double x, double y, double width, double height, std::string_view color, std::string_view tip = {});
  void circle(double x, double y, double radius, std::string_view color);
  // A line through the points that follow, each by point().
  void begin_path(std::string_view color, double width, double opacity);
  void point(double x, double y);
  void end_path() { text_ += "\"/>\n"; }

  std::string finish() &&;

 private:
  Colors colors_;
  std::string text_;
};

}  // namespace xoe

// Plots of values over steps or other numbers: axes with round numbers, and lines.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/svg.h"

namespace xoe {

struct PlotPoint {
  double x = 0;
  double y = 0;
};

struct PlotRange {
  double low = 0;
  double high = 1;
};

// What the values are, for the labels of the y axis.
enum class PlotUnit : unsigned char {
  kNumber,
  kShare,      // 0.5 is "50 %", and 1 a natural end of the axis
  kChange,     // the same without that end
  kPowerOfTen  // 2 is "100"
};

// What stands along the x axis.
struct XAxis {
  std::string_view label = "step";          // below it
  bool powers_of_two = false;               // 2^x in place of x: "256", "64K"
  std::span<const std::string> names = {};  // of 1, 2, ... in place of numbers; long ones are shortened
};

// Round numbers that cover [low, high] in about `wanted` equal intervals: 0, 0.5, 1, 1.5.
// REQUIRES: both are finite.
std::vector<double> axis_ticks(double low, double high, int wanted);

// One plot within a picture. Its labels lie outside of the place: some 60 units to the left, 45 below.
class PlotPanel {
 public:
  struct Place {
    double left = 0;
    double top = 0;
    double width = 0;
    double height = 0;
  };
  // Draws the grid and the labels. The range of y is widened to whole ticks.
  PlotPanel(Svg& svg, Place place, PlotRange x, PlotRange y, PlotUnit unit = PlotUnit::kNumber, const XAxis& axis = {});

  // At most some hundred of the points are drawn: more would not be seen.
  void line(std::span<const PlotPoint> points, std::string_view color, double width, double opacity = 1);
  void dots(std::span<const PlotPoint> points, std::string_view color);

  const Place& place() const noexcept { return place_; }
  PlotRange x() const noexcept { return x_; }
  PlotRange y() const noexcept { return y_; }

 private:
  void add_x_axis(const XAxis& axis);
  double across(double x) const { return place_.left + (x - x_.low) / (x_.high - x_.low) * place_.width; }
  double down(double y) const { return place_.top + place_.height - (y - y_.low) / (y_.high - y_.low) * place_.height; }

  Svg& svg_;
  Place place_;
  PlotRange x_;
  PlotRange y_;
};

// Exponential moving average over a twentieth of the points, with bias correction.
std::vector<PlotPoint> smoothed(std::span<const PlotPoint> points);

}  // namespace xoe

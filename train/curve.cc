#include "train/curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "base/svg.h"

namespace xoe::train {
namespace {

constexpr double kWidth = 960;
constexpr double kHeight = 360;
constexpr std::size_t kMostPoints = 600;  // more would not be seen

constexpr std::string_view kLossColor = "#c2570c";
constexpr std::string_view kAccuracyColor = "#0b6bcb";

using Anchor = Svg::Anchor;

struct Range {
  double low = 0;
  double high = 1;
};

struct Panel {
  double left, top, width, height;  // the plot itself; labels lie outside
  Range x, y;

  double px(double value) const { return left + (value - x.low) / (x.high - x.low) * width; }
  double py(double value) const { return top + height - (value - y.low) / (y.high - y.low) * height; }
};

using Points = std::span<const CurvePoint>;

void add_line(Svg& svg, const Panel& panel, Points points, std::string_view color, double width, double opacity) {
  svg.begin_path(color, width, opacity);
  const std::size_t stride = std::max<std::size_t>(1, points.size() / kMostPoints);
  for (std::size_t i = 0; i < points.size(); ++i)
    if (i % stride == 0 || i + 1 == points.size())
      svg.point(panel.px(static_cast<double>(points[i].step)), panel.py(points[i].value));
  svg.end_path();
}

std::string tick_text(double value, double step, bool percent) {
  if (percent) return fmt::format("{:.0f} %", value * 100);
  const int digits = std::clamp(static_cast<int>(-std::floor(std::log10(step) + 1e-9)), 0, 6);
  return fmt::format("{:.{}f}", value, digits);
}

// Grid, tick labels, title; the panel's ranges are widened to whole ticks.
void add_axes(Svg& svg, Panel& panel, std::string_view title, std::string_view color, bool percent) {
  const double right = panel.left + panel.width;
  const double bottom = panel.top + panel.height;
  const auto y_ticks = axis_ticks(panel.y.low, panel.y.high, 5);
  panel.y = {.low = y_ticks.front(), .high = y_ticks.back()};
  for (const double tick : y_ticks) {
    svg.line(panel.left, panel.py(tick), right, panel.py(tick), Svg::kGrid);
    svg.text(panel.left - 8, panel.py(tick) + 4, Anchor::kEnd, Svg::kFaint, 12,
             tick_text(tick, y_ticks[1] - y_ticks[0], percent));
  }
  for (const double tick : axis_ticks(panel.x.low, panel.x.high, 6)) {
    if (tick > panel.x.high) continue;
    svg.line(panel.px(tick), bottom, panel.px(tick), bottom + 5, Svg::kFaint);
    svg.text(panel.px(tick), bottom + 20, Anchor::kMiddle, Svg::kFaint, 12, fmt::format("{:g}", tick));
  }
  svg.line(panel.left, bottom, right, bottom, Svg::kFaint);
  svg.text(panel.left + panel.width / 2, bottom + 40, Anchor::kMiddle, Svg::kFaint, 12, "step");
  svg.text(panel.left, panel.top - 12, Anchor::kStart, color, 14, title);
}

// Exponential moving average over a twentieth of the run, with bias correction.
std::vector<CurvePoint> smooth(Points points) {
  const double keep = 1.0 - 1.0 / std::max(1.0, static_cast<double>(points.size()) / 20);
  std::vector<CurvePoint> out;
  out.reserve(points.size());
  double mean = 0;
  double weight = 0;
  for (const CurvePoint& point : points) {
    mean = keep * mean + (1 - keep) * point.value;
    weight = keep * weight + (1 - keep);
    out.push_back({point.step, mean / weight});
  }
  return out;
}

double last_step(const Curve& curve) {
  std::int64_t last = 1;
  if (!curve.loss.empty()) last = std::max(last, curve.loss.back().step);
  if (!curve.accuracy.empty()) last = std::max(last, curve.accuracy.back().step);
  return static_cast<double>(last);
}

void add_loss(Svg& svg, Panel panel, Points loss) {
  const auto smoothed = smooth(loss);
  const auto by_value = [](const CurvePoint& point) { return point.value; };
  panel.y.high = loss.empty() ? 1 : std::max(1e-3, std::ranges::max(loss, {}, by_value).value);
  add_axes(svg, panel, "training loss", kLossColor, false);
  add_line(svg, panel, loss, kLossColor, 1, 0.3);
  add_line(svg, panel, smoothed, kLossColor, 2.2, 1);
}

void add_accuracy(Svg& svg, Panel panel, Points accuracy) {
  panel.y.high = 1;
  const std::string title = accuracy.empty() ? "held-out accuracy (not measured)"
                                             : fmt::format("held-out accuracy: {:.1f} %", accuracy.back().value * 100);
  add_axes(svg, panel, title, kAccuracyColor, true);
  add_line(svg, panel, accuracy, kAccuracyColor, 2.2, 1);
  for (const CurvePoint& point : accuracy)
    svg.circle(panel.px(static_cast<double>(point.step)), panel.py(point.value), 3.2, kAccuracyColor);
}

}  // namespace

std::vector<double> axis_ticks(double low, double high, int wanted) {
  if (!(high > low)) high = low + 1;
  const double rough = (high - low) / wanted;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * (1 - 1e-9)) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  const double first = std::floor(low / step + 1e-9);
  const double last = std::ceil(high / step - 1e-9);
  for (double i = first; i <= last; ++i) ticks.push_back(i * step);
  return ticks;
}

std::string curve_svg(const Curve& curve) {
  Svg svg(kWidth, kHeight);
  svg.text(24, 32, Anchor::kStart, Svg::kInk, 17, curve.title);
  const Range steps = {.low = 0, .high = last_step(curve)};
  add_loss(svg, {.left = 68, .top = 80, .width = 388, .height = 216, .x = steps, .y = {}}, curve.loss);
  add_accuracy(svg, {.left = 540, .top = 80, .width = 388, .height = 216, .x = steps, .y = {}}, curve.accuracy);
  return std::move(svg).finish();
}

}  // namespace xoe::train

#include "core/base/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace xoe {
namespace {

constexpr std::size_t kMostPoints = 600;
constexpr std::size_t kShortestName = 5;

std::string tick_text(double value, double step, PlotUnit unit) {
  if (unit == PlotUnit::kPowerOfTen) return fmt::format("{:g}", std::pow(10, value));
  if (unit != PlotUnit::kNumber) return fmt::format("{:.{}f} %", value * 100, step < 0.01 ? 1 : 0);
  if (value != 0 && (step < 1e-4 || std::abs(value) >= 1e6)) return fmt::format("{:.3g}", value);
  const int digits = std::clamp(static_cast<int>(-std::floor(std::log10(step) + 1e-9)), 0, 6);
  return fmt::format("{:.{}f}", value, digits);
}

// The end of a name, which tells files of a folder apart.
std::string shortened_name(const std::string& name, std::size_t most) {
  return name.size() <= most ? name : "…" + name.substr(name.size() - (most - 1));
}

// "64K" for 16.
std::string power_text(double power) {
  if (power < 0) return fmt::format("{:g}", std::exp2(power));
  const auto tens = static_cast<int>(power) / 10;
  constexpr std::string_view kUnits = "KMGTPE";
  if (tens == 0 || tens > std::ssize(kUnits)) return fmt::format("{:g}", std::exp2(power));
  return fmt::format("{:g}{}", std::exp2(power - tens * 10), kUnits[static_cast<std::size_t>(tens - 1)]);
}

}  // namespace

std::vector<double> axis_ticks(double low, double high, int wanted) {
  // Numbers between which there are no others have no ticks.
  const double most = std::max(std::abs(low), std::abs(high));
  if (!(high - low > most * 1e-9)) high = low + std::max(1.0, most);
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

PlotPanel::PlotPanel(Svg& svg, Place place, PlotRange x, PlotRange y, PlotUnit unit, const XAxis& axis)
    : svg_(svg), place_(place), x_(x), y_(y) {
  const Svg::Colors& colors = svg_.colors();
  const double right = place_.left + place_.width;
  const double bottom = place_.top + place_.height;
  const auto y_ticks = axis_ticks(y_.low, y_.high, 5);
  y_ = {.low = y_ticks.front(), .high = y_ticks.back()};
  for (const double tick : y_ticks) {
    svg_.line(place_.left, down(tick), right, down(tick), colors.grid);
    svg_.text(place_.left - 8, down(tick) + 4, Svg::Anchor::kEnd, colors.faint, 12,
              tick_text(tick, y_ticks[1] - y_ticks[0], unit));
  }
  svg_.line(place_.left, bottom, right, bottom, colors.faint);
  add_x_axis(axis);
}

void PlotPanel::add_x_axis(const XAxis& axis) {
  const std::string_view color = svg_.colors().faint;
  const double bottom = place_.top + place_.height;
  const auto mark = [&](double x, std::string_view text) {
    svg_.line(across(x), bottom, across(x), bottom + 5, color);
    svg_.text(across(x), bottom + 20, Svg::Anchor::kMiddle, color, 12, text);
  };
  constexpr double kLetter = 7;  // wide
  const auto room = static_cast<std::size_t>(place_.width / (x_.high - x_.low) / kLetter);
  if (room >= kShortestName && !axis.names.empty()) {
    for (std::size_t i = 0; i < axis.names.size(); ++i)
      mark(static_cast<double>(i + 1), shortened_name(axis.names[i], room));
  } else {
    for (const double tick : axis_ticks(x_.low, x_.high, 6)) {
      const bool between = tick != std::floor(tick) && (axis.powers_of_two || !axis.names.empty());
      if (tick >= x_.low && tick <= x_.high && !between)
        mark(tick, axis.powers_of_two ? power_text(tick) : fmt::format("{:g}", tick));
    }
  }
  svg_.text(place_.left + place_.width / 2, bottom + 40, Svg::Anchor::kMiddle, color, 12, axis.label);
}

void PlotPanel::line(std::span<const PlotPoint> points, std::string_view color, double width, double opacity) {
  svg_.begin_path(color, width, opacity);
  const std::size_t stride = std::max<std::size_t>(1, points.size() / kMostPoints);
  for (std::size_t i = 0; i < points.size(); ++i)
    if (i % stride == 0 || i + 1 == points.size()) svg_.point(across(points[i].x), down(points[i].y));
  svg_.end_path();
}

void PlotPanel::dots(std::span<const PlotPoint> points, std::string_view color) {
  const std::size_t stride = std::max<std::size_t>(1, points.size() / kMostPoints);
  for (std::size_t i = 0; i < points.size(); ++i)
    if (i % stride == 0 || i + 1 == points.size()) svg_.circle(across(points[i].x), down(points[i].y), 3.2, color);
}

std::vector<PlotPoint> smoothed(std::span<const PlotPoint> points) {
  const double keep = 1.0 - 1.0 / std::max(1.0, static_cast<double>(points.size()) / 20);
  std::vector<PlotPoint> out;
  out.reserve(points.size());
  double mean = 0;
  double weight = 0;
  for (const PlotPoint& point : points) {
    mean = keep * mean + (1 - keep) * point.y;
    weight = keep * weight + (1 - keep);
    out.push_back({point.x, mean / weight});
  }
  return out;
}

}  // namespace xoe

#include "train/trainer/curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/plot.h"

namespace xoe::train {
namespace {

constexpr double kWidth = 960;
constexpr double kHeight = 360;

constexpr std::string_view kLossColor = "#c2570c";
constexpr std::string_view kAccuracyColor = "#0b6bcb";

using Anchor = Svg::Anchor;

std::vector<PlotPoint> points_of(const std::vector<CurvePoint>& curve) {
  std::vector<PlotPoint> points;
  points.reserve(curve.size());
  for (const CurvePoint& point : curve) points.push_back({static_cast<double>(point.step), point.value});
  return points;
}

PlotRange steps_of(const Curve& curve) {
  std::int64_t last = 1;
  if (!curve.loss.empty()) last = std::max(last, curve.loss.back().step);
  if (!curve.accuracy.empty()) last = std::max(last, curve.accuracy.back().step);
  return {.low = 0, .high = static_cast<double>(last)};
}

void add_title(Svg& svg, const PlotPanel::Place& place, std::string_view color, std::string_view title) {
  svg.text(place.left, place.top - 12, Anchor::kStart, color, 14, title);
}

}  // namespace

std::string curve_svg(const Curve& curve) {
  Svg svg(kWidth, kHeight);
  svg.text(24, 32, Anchor::kStart, Svg::kInk, 17, curve.title);
  const PlotRange steps = steps_of(curve);

  const auto loss = points_of(curve.loss);
  const double highest = loss.empty() ? 1 : std::max(1e-3, std::ranges::max(loss, {}, &PlotPoint::y).y);
  PlotPanel losses(svg, {.left = 68, .top = 80, .width = 388, .height = 216}, steps, {.low = 0, .high = highest});
  add_title(svg, losses.place(), kLossColor, "training loss");
  losses.line(loss, kLossColor, 1, 0.3);
  losses.line(smoothed(loss), kLossColor, 2.2);

  const auto accuracy = points_of(curve.accuracy);
  PlotPanel accuracies(svg, {.left = 540, .top = 80, .width = 388, .height = 216}, steps, {}, PlotUnit::kShare);
  add_title(svg, accuracies.place(), kAccuracyColor,
            accuracy.empty() ? "held-out accuracy (not measured)"
                             : fmt::format("held-out accuracy: {:.1f} %", accuracy.back().y * 100));
  accuracies.line(accuracy, kAccuracyColor, 2.2);
  accuracies.dots(accuracy, kAccuracyColor);
  return std::move(svg).finish();
}

}  // namespace xoe::train

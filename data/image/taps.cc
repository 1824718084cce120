#include "data/image/taps.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace xoe::data {
namespace {

double cubic(double x, double a) noexcept {
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

}  // namespace

Positions::Positions(const Axis& axis) noexcept {
  const double step = axis.extent / axis.outputs;
  first_ = std::llround((axis.start + 0.5 * step - 0.5) * 0x1p32);
  step_ = std::llround(step * 0x1p32);
  if (axis.mirrored) {
    first_ += (axis.outputs - 1) * step_;
    step_ = -step_;
  }
  low_ = std::llround(axis.low * 0x1p32);
  high_ = std::llround(axis.high * 0x1p32);
}

// In Pillow's order of operations, so that samples on the very edge of a filter fall on the same side. `weight` takes a
// distance in pixels of the filter.
template <class Weight>
void FilterTaps::fill(const FilterAxis& axis, bool antialias, double support, const Weight& weight) {
  const double wide = axis.blur == 0 ? axis.scale : std::hypot(axis.scale, axis.blur);
  const double stretch = antialias ? std::max(wide, 1.0) : 1;
  const double shrink = 1 / stretch;
  support *= stretch;
  const auto outputs = static_cast<std::size_t>(axis.outputs);
  stride_ = static_cast<std::size_t>(std::ceil(support)) * 2 + 1;
  weights_.assign(outputs * stride_, 0);
  for (std::size_t i = 0; i < outputs; ++i) {
    const double centre = axis.base + (axis.skipped + static_cast<int>(i) + 0.5) * axis.scale;
    const int low = static_cast<int>(std::floor(centre - support + 0.5));
    const int high = static_cast<int>(std::floor(centre + support + 0.5));
    const int first = std::clamp(low, axis.begin, axis.end - 1);
    const int end = std::clamp(high, first + 1, axis.end);
    float* weights = weights_.data() + i * stride_;
    double sum = 0;
    const auto add = [&](int k, int to) {
      const double one = weight((k - centre + 0.5) * shrink);
      weights[to - first] += static_cast<float>(one);
      sum += one;
    };
    for (int k = first; k < std::min(end, high); ++k) add(k, k);
    if (!antialias) {  // outside of the samples is the nearest one again
      for (int k = low; k < first; ++k) add(k, first);
      for (int k = std::max(end, low); k < high; ++k) add(k, end - 1);
    }
    if (sum == 0) sum = weights[0] = 1;  // no sample is within reach: the nearest one
    const double unit = 1 / sum;
    for (int k = 0; k < end - first; ++k) weights[k] = static_cast<float>(weights[k] * unit);
    first_[i] = first;
    count_[i] = end - first;
    most_ = std::max(most_, end - first);
  }
}

void FilterTaps::make(const FilterAxis& axis, const Resampling& resampling) {
  first_.resize(static_cast<std::size_t>(axis.outputs));
  count_.resize(first_.size());
  most_ = 1;
  const bool antialias = resampling.antialias;
  const double support = filter_support(resampling.interpolation);
  switch (resampling.interpolation) {
    case Interpolation::kBilinear:
      return fill(axis, antialias, support, [](double x) { return std::max(0.0, 1 - std::abs(x)); });
    case Interpolation::kBicubic:
      return fill(axis, antialias, support, [a = antialias ? -0.5 : -0.75](double x) { return cubic(std::abs(x), a); });
    case Interpolation::kArea:
      return fill(axis, antialias, support, [](double x) { return x > -0.5 && x <= 0.5 ? 1.0 : 0.0; });
  }
}

void RowPlan::clear() {
  rows.clear();
  taps.clear();
  weights.clear();
  most = 1;
}

void RowPlan::add(std::uint32_t first, std::span<const float> row_weights) {
  taps.push_back({first, static_cast<std::uint32_t>(row_weights.size()), static_cast<std::uint32_t>(weights.size())});
  weights.insert(weights.end(), row_weights.begin(), row_weights.end());
  most = std::max(most, row_weights.size());
}

void RowPlan::make(const Axis& axis) {
  const Positions positions(axis);
  clear();
  const auto need = [this](int row) {
    if (rows.empty() || rows.back() < row) rows.push_back(row);
  };
  for (int i = 0; i < axis.outputs; ++i) {
    const std::int64_t at = positions[i];
    const int row = Positions::sample(at);
    const float second = static_cast<float>(Positions::fraction(at)) * 0x1p-32F;
    need(row);
    if (Positions::fraction(at) != 0) need(row + 1);
    // The first is the last row so far, or the one before it.
    const auto last = static_cast<std::uint32_t>(rows.size() - 1);
    const float both[] = {1 - second, second};
    add(rows.back() == row ? last : last - 1, std::span(both, Positions::fraction(at) != 0 ? 2 : 1));
  }
}

void RowPlan::make(const FilterTaps& filter, int first) {
  clear();
  const std::size_t outputs = filter.outputs();
  const int low = filter.first(0);
  for (std::size_t i = 0; i < outputs; ++i) {
    const int end = filter.first(i) + static_cast<int>(filter.weights(i).size());
    while (low + static_cast<int>(rows.size()) < end) rows.push_back(first + low + static_cast<int>(rows.size()));
    add(static_cast<std::uint32_t>(filter.first(i) - low), filter.weights(i));
  }
}

}  // namespace xoe::data

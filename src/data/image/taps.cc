#include "data/image/taps.h"

#include <cmath>

namespace xoe::data {

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

void RowPlan::make(const Axis& axis) {
  const Positions positions(axis);
  rows.clear();
  taps.clear();
  const auto need = [this](int row) {
    if (rows.empty() || rows.back() < row) rows.push_back(row);
  };
  for (int i = 0; i < axis.outputs; ++i) {
    const std::int64_t at = positions[i];
    const int row = Positions::sample(at);
    const std::uint32_t fraction = Positions::fraction(at);
    need(row);
    if (fraction != 0) need(row + 1);
    // The first is the last row so far, or the one before it.
    const auto last = static_cast<std::uint32_t>(rows.size() - 1);
    const std::uint32_t first = rows.back() == row ? last : last - 1;
    taps.push_back({first, fraction != 0 ? first + 1 : first, static_cast<float>(fraction) * 0x1p-32F});
  }
}

}  // namespace xoe::data

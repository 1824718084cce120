#include "data/image/turned.h"

#include <algorithm>
#include <utility>

namespace xoe::data {

Turn turn_of(int orientation) noexcept {
  switch (orientation) {
    case 2: return {.from_right = true};
    case 3: return {.from_right = true, .from_below = true};
    case 4: return {.from_below = true};
    case 5: return {.transposed = true};
    case 6: return {.transposed = true, .from_below = true};
    case 7: return {.transposed = true, .from_right = true, .from_below = true};
    case 8: return {.transposed = true, .from_right = true};
    default: return {};
  }
}

PixelRect stored_window(const PixelRect& window, Turn turn, int width, int height) noexcept {
  PixelRect stored = window;
  if (turn.transposed) {
    std::swap(stored.x, stored.y);
    std::swap(stored.width, stored.height);
  }
  if (turn.from_right) stored.x = width - stored.right();
  if (turn.from_below) stored.y = height - stored.bottom();
  return stored;
}

PixelRect turned_window(const PixelRect& window, Turn turn, int width, int height) noexcept {
  PixelRect turned = window;
  if (turn.from_right) turned.x = width - turned.right();
  if (turn.from_below) turned.y = height - turned.bottom();
  if (turn.transposed) {
    std::swap(turned.x, turned.y);
    std::swap(turned.width, turned.height);
  }
  return turned;
}

void TurnedRows::start(const PlaneLayout& layout, const std::array<PixelRect, 3>& window) {
  layout_ = layout;
  window_ = window[0];
  turned_ = turned_window(window_, turn_, layout.width, layout.height);
  stride_ = static_cast<std::size_t>(turned_.width) + kRowSlack;
  for (std::size_t p = 0; p < static_cast<std::size_t>(layout.planes()); ++p)
    planes_[p].resize(stride_ * static_cast<std::size_t>(turned_.height));
}

void TurnedRows::row(int plane, int y, const std::uint8_t* samples) {
  const int count = window_.width;
  const int line = turn_.from_below ? window_.bottom() - 1 - y : y - window_.y;
  std::uint8_t* to = planes_[static_cast<std::size_t>(plane)].data();
  const auto step = static_cast<std::ptrdiff_t>(turn_.transposed ? stride_ : 1);
  to += line * static_cast<std::ptrdiff_t>(turn_.transposed ? 1 : stride_);
  if (turn_.from_right) {
    for (int x = count; x-- > 0; to += step) *to = samples[x];
  } else {
    for (int x = 0; x < count; ++x, to += step) *to = samples[x];
  }
}

void TurnedRows::push(RowSink& sink) const {
  PlaneLayout layout = layout_;
  if (turn_.transposed) std::swap(layout.width, layout.height);
  sink.start(layout, {turned_, turned_, turned_});
  for (int y = 0; y < turned_.height; ++y)
    for (int p = 0; p < layout.planes(); ++p)
      sink.row(p, turned_.y + y, planes_[static_cast<std::size_t>(p)].data() + stride_ * static_cast<std::size_t>(y));
}

}  // namespace xoe::data

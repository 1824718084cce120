#include "data/image/push.h"

#include "data/image/kernels.h"

namespace xoe::data {

void PixelRows::start(int width, int height, const PixelRect& window, RowSink& sink) {
  PlaneLayout layout;
  layout.width = width;
  layout.height = height;
  width_ = static_cast<std::size_t>(window.width);
  samples_.resize(3 * (width_ + kRowSlack));
  sink.start(layout, {window, window, window});
}

void PixelRows::push(int y, const std::uint8_t* pixels, RowSink& sink) {
  const std::size_t stride = width_ + kRowSlack;
  const std::array<std::uint8_t*, 3> rows = {samples_.data(), samples_.data() + stride, samples_.data() + 2 * stride};
  deinterleave(pixels, rows, width_);
  for (int p = 0; p < 3; ++p) sink.row(p, y, rows[static_cast<std::size_t>(p)]);
}

void push_image(const Image& image, const PixelRect& window, RowSink& sink) {
  PixelRows rows;
  rows.start(image.width(), image.height(), window, sink);
  for (int y = window.y; y < window.bottom(); ++y) rows.push(y, image.row(y) + 3 * window.x, sink);
}

}  // namespace xoe::data

// Rows of interleaved pixels for a RowSink.
#pragma once

#include <array>
#include <vector>

#include "data/image/image.h"
#include "data/image/planes.h"

namespace xoe::data {

// Delivers rows of red, green and blue as three planes. Keeps its memory from image to image.
class PixelRows {
 public:
  // `width` and `height` are the image's; `window` are the pixels that push() will get.
  void start(int width, int height, const PixelRect& window, RowSink& sink);
  // `pixels` points at the window's first pixel in row y.
  void push(int y, const std::uint8_t* pixels, RowSink& sink);

 private:
  std::size_t width_ = 0;
  std::vector<std::uint8_t> samples_;
};

// Delivers the pixels within `window`, which lies within the image.
void push_image(const Image& image, const PixelRect& window, RowSink& sink);

}  // namespace xoe::data

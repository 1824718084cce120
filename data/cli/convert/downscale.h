// Downscaling with antialiasing.
#pragma once

#include "data/image/image.h"

namespace xoe::data {

// Pillow's BILINEAR: each pixel is a weighted mean; the weights are a triangle as wide as the scale. REQUIRES: sizes of
// at least 1 and at most those of `from`; `to` is another image.
void downscale(const Image& from, int width, int height, Image& to);

}  // namespace xoe::data

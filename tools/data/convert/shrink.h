// Makes images smaller for good, with smoothing.
#pragma once

#include "data/image/image.h"

namespace xoe::data {

// Bilinear with antialiasing, as Pillow's BILINEAR: each pixel is a mean, weighted by a triangle that reaches as far as
// the image shrinks. REQUIRES: sizes of at least 1 and at most those of `from`, which is another image than `to`.
void shrink(const Image& from, int width, int height, Image& to);

}  // namespace xoe::data

// The part of an image that becomes the network's input.
#pragma once

#include "data/image/planes.h"
#include "data/stages/random.h"

namespace xoe::data {

// A rectangle in pixels; borders may fall between pixels.
struct Region {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

// The random crop of Szegedy et al. 2014 as torchvision implements it: an area of `min_area` to 100 % and an aspect
// ratio of 3/4 to 4/3 on a logarithmic scale, in whole pixels. After 10 draws that do not fit, the largest centred part
// with a ratio in that range.
Region random_crop(int width, int height, Random& random, double min_area = 0.08) noexcept;

// The middle of the image once its shorter side is scaled to output * 8/7: a square of 7/8 of the shorter side.
Region centre_crop(int width, int height) noexcept;

// The region that is resized, and the pixels that may be read for it; a tap outside of them takes the nearest pixel.
struct Crop {
  Region region;
  PixelRect limits;
};

// Crop, then resize: no pixel outside of `region`, which is whole pixels, is read; its border pixels repeat.
Crop crop_then_resize(const Region& region) noexcept;

// Resize, then crop: the pixels of the image around `region` take part.
Crop resize_then_crop(const Region& region, int width, int height) noexcept;

// The pixels that a decoder must deliver for this crop, for any size of the output.
PixelRect needed_pixels(const Crop& crop) noexcept;

inline constexpr float kMean[3] = {0.485F, 0.456F, 0.406F};  // of ImageNet, for values within [0, 1]
inline constexpr float kDeviation[3] = {0.229F, 0.224F, 0.225F};

}  // namespace xoe::data

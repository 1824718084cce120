// Which part of an image becomes the network's input.
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

// The distortion of Szegedy et al. 2014 as torchvision has it: an area of `min_area` to 100 % and a ratio of 3/4 to
// 4/3, both drawn, the ratio on a logarithmic scale; whole pixels. After 10 draws that do not fit: the largest centred
// part with a ratio in that range.
Region random_crop(int width, int height, Random& random, double min_area = 0.08) noexcept;

// The middle of the image once its shorter side is scaled to output * 8/7: a square of 7/8 of the shorter side.
Region centre_crop(int width, int height) noexcept;

// What is resized, and the pixels that it may look at; a tap outside of them takes the nearest one.
struct Crop {
  Region region;
  PixelRect limits;
};

// Crop, then resize: nothing outside of `region`, which is whole pixels, is seen; its border pixels repeat.
Crop cut(const Region& region) noexcept;

// Resize, then crop: pixels around `region` take part as long as the image has any.
Crop part_of(const Region& region, int width, int height) noexcept;

// The pixels that a decoder has to deliver for this crop, whatever the output's size.
PixelRect needed_pixels(const Crop& crop) noexcept;

inline constexpr float kMean[3] = {0.485F, 0.456F, 0.406F};  // of ImageNet, for values within [0, 1]
inline constexpr float kDeviation[3] = {0.229F, 0.224F, 0.225F};

}  // namespace xoe::data

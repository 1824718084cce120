// The part of an image that becomes the network's input.
#pragma once

#include "data/image/planes.h"
#include "data/stages/random.h"
#include "xoe/data/pixels.h"

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

// 7/8 of the largest part in the middle that has the shape of `size`. For a square: the middle of the image once its
// shorter side is scaled to size * 8/7.
Region centre_crop(int width, int height, ImageSize size) noexcept;

// How output pixels are made of those around them.
struct Resampling {
  Interpolation interpolation = Interpolation::kBilinear;
  bool antialias = false;
};

// How far the weights of a filter reach from an output's centre where it is not stretched, in pixels.
double filter_support(Interpolation interpolation) noexcept;

// The region that is resized, and the pixels that may be read for it. A tap outside of them takes the nearest pixel;
// with antialiasing it is left out, and the others weigh more.
struct Crop {
  Region region;
  PixelRect limits;
  Resampling resampling = {};
  // Where width is not 0, the limits are resized to so many whole pixels, of which the target is the part from (x, y)
  // on; `region` is that part before resizing.
  PixelRect resized = {};
};

// Crop, then resize: no pixel outside of `region`, which is whole pixels, is read.
Crop crop_then_resize(const Region& region, Resampling resampling = {}) noexcept;

// Resize, then crop: the pixels of the image around `region` take part. REQUIRES: no antialiasing, which depends on the
// whole pixels of the resized image.
Crop resize_then_crop(const Region& region, int width, int height, Resampling resampling = {}) noexcept;

// The crop of evaluation. With antialiasing it is torchvision's: Resize() to 8/7 of `size`, in whole pixels, then
// CenterCrop(); else centre_crop().
Crop evaluation_crop(int width, int height, ImageSize size, Resampling resampling) noexcept;

// The pixels that a decoder must deliver for this crop, for any size of the output.
PixelRect needed_pixels(const Crop& crop) noexcept;

inline constexpr float kMean[3] = {0.485F, 0.456F, 0.406F};  // of ImageNet, for values within [0, 1]
inline constexpr float kDeviation[3] = {0.229F, 0.224F, 0.225F};

}  // namespace xoe::data

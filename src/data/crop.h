// Which part of an image becomes the network's input, and its resampling.
#pragma once

#include "data/image.h"
#include "data/random.h"

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

// Writes `region` as output x output float32 in three planes, bilinear between pixel centres (no smoothing when it
// shrinks, as TensorFlow), mirrored left to right when `flip`, normalised with ImageNet's mean and standard deviation.
void resample(const Image& image, const Region& region, int output, bool flip, float* planes);

inline constexpr float kMean[3] = {0.485F, 0.456F, 0.406F};  // of ImageNet, for values within [0, 1]
inline constexpr float kDeviation[3] = {0.229F, 0.224F, 0.225F};

}  // namespace xoe::data

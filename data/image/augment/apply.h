// Changes 8-bit RGB images as torchvision does with Pillow's images, to the same levels.
#pragma once

#include <span>

#include "data/image/augment/plan.h"
#include "data/image/image.h"

namespace xoe::data {

inline constexpr std::size_t kLevels = 256;  // of an 8-bit channel

// Applies the changes in their order. `scratch` is overwritten, and the two images may exchange their memory.
void apply(std::span<const PixelChange> changes, Image& image, Image& scratch);

// The changes one by one.
void change_brightness(Image& image, double factor);
void change_contrast(Image& image, double factor);
void change_saturation(Image& image, double factor);
void change_hue(Image& image, double turns);
void sharpen(const Image& image, Image& to, double factor);
void posterize(Image& image, int bits);
void solarize(Image& image, double threshold);
void stretch_contrast(Image& image);
void equalize(Image& image);

// Pixel (x, y) of the result is the pixel nearest to (ax + by + c, dx + ey + f), counted from the corners of pixels;
// black outside.
struct Affine {
  double a = 1;
  double b = 0;
  double c = 0;
  double d = 0;
  double e = 1;
  double f = 0;
};
void transform(const Image& image, Image& to, const Affine& matrix);
Affine shear(double columns, double rows);
Affine rotation(double degrees, int width, int height);

}  // namespace xoe::data

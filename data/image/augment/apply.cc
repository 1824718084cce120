#include "data/image/augment/apply.h"

#include <utility>

namespace xoe::data {
namespace {

Affine matrix_of(const PixelChange& change, int width, int height) {
  switch (change.op) {
    case PixelOp::kShearX: return shear(change.amount, 0);
    case PixelOp::kShearY: return shear(0, change.amount);
    case PixelOp::kTranslateX: return {.c = -static_cast<double>(static_cast<int>(change.amount))};
    case PixelOp::kTranslateY: return {.f = -static_cast<double>(static_cast<int>(change.amount))};
    default: return rotation(change.amount, width, height);
  }
}

void apply_one(const PixelChange& change, Image& image, Image& scratch) {
  switch (change.op) {
    case PixelOp::kIdentity: return;
    case PixelOp::kShearX:
    case PixelOp::kShearY:
    case PixelOp::kTranslateX:
    case PixelOp::kTranslateY:
    case PixelOp::kRotate:
      transform(image, scratch, matrix_of(change, image.width(), image.height()));
      return std::swap(image, scratch);
    case PixelOp::kSharpness: sharpen(image, scratch, change.amount); return std::swap(image, scratch);
    case PixelOp::kBrightness: return change_brightness(image, change.amount);
    case PixelOp::kSaturation: return change_saturation(image, change.amount);
    case PixelOp::kContrast: return change_contrast(image, change.amount);
    case PixelOp::kPosterize: return posterize(image, static_cast<int>(change.amount));
    case PixelOp::kSolarize: return solarize(image, change.amount);
    case PixelOp::kAutoContrast: return stretch_contrast(image);
    case PixelOp::kEqualize: return equalize(image);
    case PixelOp::kHue: return change_hue(image, change.amount);
  }
}

}  // namespace

void apply(std::span<const PixelChange> changes, Image& image, Image& scratch) {
  for (const PixelChange& change : changes) apply_one(change, image, scratch);
}

}  // namespace xoe::data

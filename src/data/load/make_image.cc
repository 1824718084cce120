#include "data/load/make_image.h"

#include "base/error.h"
#include "data/image/augment/apply.h"
#include "data/image/augment/batch.h"
#include "data/image/augment/plan.h"
#include "data/image/crop.h"
#include "data/image/push.h"

namespace xoe::data {
namespace {

bool changes_pixels(const ImageMaking& making) {
  return making.training && (making.augmentation.colour_jitter || making.augmentation.rand_augment);
}

Target target_of(const ImageMaking& making, void* pixels) {
  return {.to = pixels,
          .dtype = making.dtype,
          .layout = making.layout,
          .width = making.size,
          .height = making.size,
          .channels = 3,
          .flip = false,
          .mean = making.mean,
          .deviation = making.deviation};
}

// As 8-bit pixels first, which the changes are defined on.
Target pixels_first(const ImageMaking& making, Image& image) {
  image.resize(making.size, making.size);
  Target target = target_of(making, image.row(0));
  target.dtype = DType::kUint8;
  target.layout = Layout::kNhwc;
  return target;
}

void change_and_normalise(ImageTools& tools, const ImageMaking& making, Random& random, void* pixels) {
  apply(draw_changes(random, making.augmentation, making.size, making.size), tools.image, tools.scratch);
  const PixelRect whole{0, 0, making.size, making.size};
  const auto side = static_cast<double>(making.size);
  tools.normaliser.prepare(cut({0, 0, side, side}), target_of(making, pixels));
  push_image(tools.image, whole, tools.normaliser);
}

void erase(const ImageMaking& making, Random& random, void* pixels) {
  const auto plan = draw_erasing(random, *making.augmentation.erasing, making.size, making.size);
  if (!plan) return;
  apply(*plan, FloatImages{.data = static_cast<float*>(pixels),
                           .count = 1,
                           .channels = 3,
                           .height = making.size,
                           .width = making.size,
                           .layout = making.layout});
}

}  // namespace

Status check(const ImageMaking& making) {
  constexpr int kMaxSide = 8192;
  if (making.size < 1 || making.size > kMaxSide)
    return failure(Code::kInvalidArgument, "images: the size (1 to {}) is {}", kMaxSide, making.size);
  if (!(making.min_area > 0 && making.min_area <= 1))
    return failure(Code::kInvalidArgument, "images: min_area (above 0, up to 1) is {}", making.min_area);
  if (!Resizer::supports(making.dtype))
    return failure(Code::kInvalidArgument, "images: dtype (uint8, float16, bfloat16 or float32) is {}",
                   dtype_name(making.dtype));
  if (making.augmentation.erasing && making.dtype != DType::kFloat32)
    return failure(Code::kInvalidArgument, "images: random erasing is for float32, not for {}",
                   dtype_name(making.dtype));
  return check(making.augmentation);
}

Status make_image(ImageTools& tools, const ImageMaking& making, const ImageRecord& record, std::uint64_t key,
                  void* pixels) {
  XOE_ASSIGN(const ImageDecoder::Facts facts, tools.decoder.open(record));
  const bool changes = changes_pixels(making);
  Target target = changes ? pixels_first(making, tools.image) : target_of(making, pixels);
  Crop crop = part_of(centre_crop(facts.width, facts.height), facts.width, facts.height);
  Random random(key);
  if (making.training) {
    crop = cut(random_crop(facts.width, facts.height, random, making.min_area));
    target.flip = random.chance(0.5);
  }
  tools.resizer.prepare(crop, target);
  const Colour wanted = making.quality == Quality::kFast ? Colour::kYcc : Colour::kRgb;
  XOE_TRY(tools.decoder.decode(needed_pixels(crop), wanted, tools.resizer));
  if (!tools.resizer.complete()) return failure(Code::kInternal, "{}", "the decoder left out rows");
  if (changes) change_and_normalise(tools, making, random, pixels);
  if (making.training && making.augmentation.erasing) erase(making, random, pixels);
  return {};
}

}  // namespace xoe::data

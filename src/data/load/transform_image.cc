#include "data/load/transform_image.h"

#include "base/error.h"
#include "data/image/augment/apply.h"
#include "data/image/augment/batch.h"
#include "data/image/augment/plan.h"
#include "data/image/crop.h"
#include "data/image/push.h"

namespace xoe::data {
namespace {

bool augments_pixels(const ImageTransform& transform) {
  return transform.training && (transform.augmentation.colour_jitter || transform.augmentation.rand_augment);
}

Target target_of(const ImageTransform& transform, void* pixels) {
  return {.to = pixels,
          .dtype = transform.dtype,
          .layout = transform.layout,
          .width = transform.size,
          .height = transform.size,
          .channels = 3,
          .flip = false,
          .mean = transform.mean,
          .deviation = transform.deviation};
}

Target pixel_target_of(const ImageTransform& transform, Image& image) {
  image.resize(transform.size, transform.size);
  Target target = target_of(transform, image.row(0));
  target.dtype = DType::kUint8;
  target.layout = Layout::kNhwc;
  return target;
}

void erase(const ImageTransform& transform, Random& random, void* pixels) {
  const auto plan = draw_erasing(random, *transform.augmentation.erasing, transform.size, transform.size);
  if (!plan) return;
  apply(*plan, FloatImages{.data = static_cast<float*>(pixels),
                           .count = 1,
                           .channels = 3,
                           .height = transform.size,
                           .width = transform.size,
                           .layout = transform.layout});
}

}  // namespace

Status check(const ImageTransform& transform) {
  constexpr int kMaxOutputSide = 8192;
  if (transform.size < 1 || transform.size > kMaxOutputSide)
    return failure(Code::kInvalidArgument, "images: the size (1 to {}) is {}", kMaxOutputSide, transform.size);
  if (!(transform.min_area > 0 && transform.min_area <= 1))
    return failure(Code::kInvalidArgument, "images: min_area (above 0, up to 1) is {}", transform.min_area);
  if (!Resizer::supports(transform.dtype))
    return failure(Code::kInvalidArgument, "images: dtype (uint8, float16, bfloat16 or float32) is {}",
                   dtype_name(transform.dtype));
  if (transform.augmentation.erasing && transform.dtype != DType::kFloat32)
    return failure(Code::kInvalidArgument, "images: random erasing is for float32, not for {}",
                   dtype_name(transform.dtype));
  return check(transform.augmentation);
}

void RecordTransformer::augment_and_normalise(const ImageTransform& transform, Random& random, void* pixels) {
  const int side = transform.size;
  apply(draw_changes(random, transform.augmentation, side, side), image_, scratch_);
  normaliser_.prepare(crop_then_resize({0, 0, static_cast<double>(side), static_cast<double>(side)}),
                      target_of(transform, pixels));
  push_image(image_, PixelRect{0, 0, side, side}, normaliser_);
}

Status RecordTransformer::run(const ImageTransform& transform, const ImageRecord& record, std::uint64_t key,
                              void* pixels) {
  XOE_ASSIGN(const ImageDecoder::Facts facts, decoder_.open(record));
  const bool augments = augments_pixels(transform);
  Target target = augments ? pixel_target_of(transform, image_) : target_of(transform, pixels);
  Crop crop = resize_then_crop(centre_crop(facts.width, facts.height), facts.width, facts.height);
  Random random(key);
  if (transform.training) {
    crop = crop_then_resize(random_crop(facts.width, facts.height, random, transform.min_area));
    target.flip = random.chance(0.5);
  }
  resizer_.prepare(crop, target);
  const Colour wanted = transform.quality == Quality::kFast ? Colour::kYcc : Colour::kRgb;
  XOE_TRY(decoder_.decode(needed_pixels(crop), wanted, resizer_));
  if (!resizer_.complete()) return failure(Code::kInternal, "{}", "the decoder left out rows");
  if (augments) augment_and_normalise(transform, random, pixels);
  if (transform.training && transform.augmentation.erasing) erase(transform, random, pixels);
  return {};
}

struct ImageTransformer::Impl : RecordTransformer {};

ImageTransformer::ImageTransformer() : impl_(std::make_unique<Impl>()) {}
ImageTransformer::ImageTransformer(ImageTransformer&&) noexcept = default;
ImageTransformer& ImageTransformer::operator=(ImageTransformer&&) noexcept = default;
ImageTransformer::~ImageTransformer() = default;

Status ImageTransformer::run(const ImageTransform& transform, std::string_view file, std::uint64_t key, void* pixels) {
  XOE_TRY(check(transform));
  return impl_->run(transform, ImageRecord{.bytes = file, .targets = {}}, key, pixels);
}

}  // namespace xoe::data

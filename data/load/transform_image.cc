#include "data/load/transform_image.h"

#include <cstddef>
#include <cstring>

#include "core/base/error.h"
#include "data/files/foreign_bytes.h"
#include "data/image/augment/apply.h"
#include "data/image/augment/batch.h"
#include "data/image/augment/plan.h"
#include "data/image/crop.h"
#include "data/image/push.h"
#include "data/image/too_large.h"

namespace xoe::data {
namespace {

constexpr std::int64_t kMaxRawSide = 1 << 20;

bool augments_pixels(const ImageTransform& transform) {
  return transform.training && (transform.augmentation.colour_jitter || transform.augmentation.rand_augment);
}

Target target_of(const ImageTransform& transform, void* pixels) {
  return {.to = pixels,
          .dtype = transform.dtype,
          .layout = transform.layout,
          .width = transform.size.width,
          .height = transform.size.height,
          .channels = 3,
          .flip = false,
          .mean = transform.mean,
          .deviation = transform.deviation};
}

Target pixel_target_of(const ImageTransform& transform, Image& image) {
  image.resize(transform.size.width, transform.size.height);
  Target target = target_of(transform, image.row(0));
  target.dtype = DType::kUint8;
  target.layout = Layout::kNhwc;
  return target;
}

void erase(const ImageTransform& transform, Random& random, void* pixels) {
  const auto plan = draw_erasing(random, *transform.augmentation.erasing, transform.size.width, transform.size.height);
  if (!plan) return;
  apply(*plan, FloatImages{.data = static_cast<float*>(pixels),
                           .count = 1,
                           .channels = 3,
                           .height = transform.size.height,
                           .width = transform.size.width,
                           .layout = transform.layout});
}

}  // namespace

Result<PixelSize> ImageDecoder::open_pixels(std::int64_t max_pixels) const {
  const ImageRecord& record = record_;
  const bool sized = record.width > 0 && record.height > 0 && record.width <= kMaxRawSide &&
                     record.height <= kMaxRawSide && (record.channels == 1 || record.channels == 3);
  if (!sized || record.bytes.size() != std::size_t{1} * record.width * record.height * record.channels)
    return failure(Code::kDataLoss, "{} bytes are not {} x {} pixels of {} channels", record.bytes.size(), record.width,
                   record.height, record.channels);
  if (std::int64_t{record.width} * record.height > max_pixels)
    return too_large("an image", record.width, record.height, max_pixels);
  return PixelSize{record.width, record.height};
}

Result<PixelSize> ImageDecoder::open_stored(const PixelOptions& options) {
  turn_ = {};
  codec_ = nullptr;
  if (record_.width != 0) return open_pixels(options.max_pixels);
  const auto encoding = encoding_of(record_.bytes);
  if (!encoding) return failure(Code::kDataLoss, describe_no_image(record_.bytes));
  codec_ = &codecs_.of(*encoding);
  XOE_ASSIGN(const PixelSize size, codec_->open(record_.bytes, options.max_pixels));
  if (options.exif_orientation) turn_ = turn_of(codec_->orientation(record_.bytes));
  return size;
}

Result<PixelSize> ImageDecoder::open(const ImageRecord& record, const PixelOptions& options) {
  record_ = record;
  XOE_ASSIGN(stored_, open_stored(options));
  return turn_.transposed ? PixelSize{stored_.height, stored_.width} : stored_;
}

Status ImageDecoder::decode(const PixelRect& window, Colour wanted, RowSink& sink) {
  if (turn_.none()) return decode_stored(window, wanted, sink);
  turned_.prepare(turn_);
  XOE_TRY(decode_stored(stored_window(window, turn_, stored_.width, stored_.height), Colour::kRgb, turned_));
  turned_.push(sink);
  return {};
}

Status ImageDecoder::decode_stored(const PixelRect& window, Colour wanted, RowSink& sink) {
  if (codec_ != nullptr) return codec_->push(window, wanted, sink);
  push_pixels(window, sink);
  return {};
}

void ImageDecoder::push_pixels(const PixelRect& window, RowSink& sink) {
  const auto* pixels = reinterpret_cast<const std::uint8_t*>(record_.bytes.data());
  const auto at = [&](int y) {
    return pixels + (std::size_t{1} * y * record_.width + window.x) * static_cast<std::size_t>(record_.channels);
  };
  if (record_.channels == 3) {
    rgb_.start(record_.width, record_.height, window, sink);
    for (int y = window.y; y < window.bottom(); ++y) rgb_.push(y, at(y), sink);
    return;
  }
  PlaneLayout layout{.colour = Colour::kGrey, .width = record_.width, .height = record_.height};
  sink.start(layout, {window, window, window});
  grey_.resize(static_cast<std::size_t>(window.width) + kRowSlack);
  for (int y = window.y; y < window.bottom(); ++y) {
    std::memcpy(grey_.data(), at(y), static_cast<std::size_t>(window.width));
    sink.row(0, y, grey_.data());
  }
}

Status check(const ImageTransform& transform) {
  constexpr int kMaxOutputSide = 8192;
  for (const int side : {transform.size.height, transform.size.width})
    if (side < 1 || side > kMaxOutputSide)
      return failure(Code::kInvalidArgument, "images: the size (1 to {}) is {}", kMaxOutputSide, side);
  const PixelOptions& pixels = transform.pixels;
  if (interpolation_name(pixels.interpolation).empty())
    return failure(Code::kInvalidArgument, "images: there is no interpolation {}",
                   static_cast<int>(pixels.interpolation));
  if (pixels.interpolation == Interpolation::kArea && !pixels.antialias)
    return failure(Code::kInvalidArgument, "images: interpolation area is a mean of pixels, so it needs antialias");
  if (pixels.max_pixels < 1)
    return failure(Code::kInvalidArgument, "images: max_pixels (1 or more) is {}", pixels.max_pixels);
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
  const auto [height, width] = transform.size;
  apply(draw_changes(random, transform.augmentation, width, height), image_, scratch_);
  normaliser_.prepare(crop_then_resize({0, 0, static_cast<double>(width), static_cast<double>(height)}),
                      target_of(transform, pixels));
  push_image(image_, PixelRect{0, 0, width, height}, normaliser_);
}

Status RecordTransformer::run(const ImageTransform& transform, const ImageRecord& record, std::uint64_t key,
                              void* pixels) {
  const PixelOptions& options = transform.pixels;
  XOE_ASSIGN(const PixelSize facts, decoder_.open(record, options));
  const bool augments = augments_pixels(transform);
  Target target = augments ? pixel_target_of(transform, image_) : target_of(transform, pixels);
  const Resampling resampling{options.interpolation, options.antialias};
  Random random(key);
  Crop crop;
  if (transform.training) {
    if (!transform.whole)
      crop = crop_then_resize(random_crop(facts.width, facts.height, random, transform.min_area), resampling);
    target.flip = transform.flip && random.chance(0.5);
  } else if (!transform.whole) {
    crop = evaluation_crop(facts.width, facts.height, transform.size, resampling);
  }
  if (transform.whole)
    crop = crop_then_resize({0, 0, static_cast<double>(facts.width), static_cast<double>(facts.height)}, resampling);
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

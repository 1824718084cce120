#include "data/load/transform_image.h"

#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "data/image/augment/apply.h"
#include "data/image/augment/batch.h"
#include "data/image/augment/plan.h"
#include "data/image/crop.h"
#include "data/image/push.h"

namespace xoe::data {
namespace {

constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";
constexpr std::int64_t kMaxRawSide = 1 << 20;

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

Result<ImageDecoder::Facts> ImageDecoder::open(const ImageRecord& record) {
  record_ = record;
  if (record.width != 0) {
    kind_ = Kind::kPixels;
    const bool sized = record.width > 0 && record.height > 0 && record.width <= kMaxRawSide &&
                       record.height <= kMaxRawSide && (record.channels == 1 || record.channels == 3);
    if (!sized || record.bytes.size() != std::size_t{1} * record.width * record.height * record.channels)
      return failure(Code::kDataLoss, "{} bytes are not {} x {} pixels of {} channels", record.bytes.size(),
                     record.width, record.height, record.channels);
    return Facts{record.width, record.height};
  }
  if (record.bytes.starts_with(kPngSignature)) {
    kind_ = Kind::kPng;
    XOE_ASSIGN(const PngHeader header, png_.open(record.bytes));
    return Facts{header.width, header.height};
  }
  kind_ = Kind::kJpeg;
  XOE_ASSIGN(const JpegHeader header, jpeg_.open(record.bytes));
  return Facts{header.width, header.height};
}

Status ImageDecoder::decode(const PixelRect& window, Colour wanted, RowSink& sink) {
  switch (kind_) {
    case Kind::kJpeg: return jpeg_.decode(window, wanted, sink);
    case Kind::kPng: return png_.push(window, sink);
    case Kind::kPixels: break;
  }
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

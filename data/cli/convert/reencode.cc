#include "data/cli/convert/reencode.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/error.h"
#include "data/cli/convert/downscale.h"
#include "data/jpeg/exif.h"

namespace xoe::data {
namespace {

Result<std::string> encode_grey_png(const Image& image) {
  std::vector<std::uint8_t> samples(static_cast<std::size_t>(image.width()) * static_cast<std::size_t>(image.height()));
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = image.row(0)[3 * i];
  return encode_png({.width = image.width(), .height = image.height(), .colour = PngColour::kGrey, .samples = samples});
}

Result<std::string> encode_pixels(const ImageRecord& record) {
  const auto* samples = reinterpret_cast<const std::uint8_t*>(record.bytes.data());
  return encode_png({.width = record.width,
                     .height = record.height,
                     .colour = record.channels == 1 ? PngColour::kGrey : PngColour::kRgb,
                     .samples = {samples, record.bytes.size()}});
}

}  // namespace

Status Reencoder::decode(const ImageRecord& record, const ImageFacts& facts) {
  return facts.jpeg() ? jpeg_.decode(record.bytes, decoded_) : png_.decode(record.bytes, decoded_);
}

Result<EncodedImage> Reencoder::encode(const Image& image, bool jpeg, bool grey) {
  if (jpeg) {
    XOE_ASSIGN(bytes_, encode_jpeg(image, {.quality = options_.quality, .grey = grey}));
  } else {
    XOE_ASSIGN(bytes_, grey ? encode_grey_png(image) : encode_png(image));
  }
  return EncodedImage{bytes_,
                      {.kind = jpeg ? ImageKind::kBaselineJpeg : ImageKind::kPng,
                       .width = image.width(),
                       .height = image.height(),
                       .channels = grey ? 1 : 3}};
}

Result<EncodedImage> Reencoder::run(const ImageRecord& record) {
  XOE_ASSIGN(ImageFacts facts, read_image_facts(record));
  const int shorter = std::min(facts.width, facts.height);
  const bool resize = options_.resize_shorter > 0 && shorter > options_.resize_shorter;
  if (facts.kind != ImageKind::kPixels && !resize) return EncodedImage{record.bytes, facts};
  ImageRecord file = record;
  if (facts.kind == ImageKind::kPixels) {
    facts.kind = ImageKind::kPng;
    XOE_ASSIGN(bytes_, encode_pixels(record));
    if (!resize) return EncodedImage{bytes_, facts};
    file.bytes = bytes_;
  }
  XOE_TRY(decode(file, facts));
  const double scale = static_cast<double>(options_.resize_shorter) / shorter;
  const auto scaled = [scale](int side) { return std::max(1, static_cast<int>(std::lround(side * scale))); };
  downscale(decoded_, scaled(facts.width), scaled(facts.height), downscaled_);
  XOE_ASSIGN(EncodedImage encoded, encode(downscaled_, facts.jpeg(), facts.channels <= 2));
  if (const int orientation = facts.jpeg() ? exif_orientation(record.bytes) : 1; orientation != 1) {
    bytes_ = with_orientation(bytes_, orientation);
    encoded.bytes = bytes_;
  }
  return encoded;
}

}  // namespace xoe::data

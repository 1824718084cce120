#include "data/cli/convert/reencode.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/error.h"
#include "data/cli/convert/downscale.h"
#include "data/png/png.h"

namespace xoe::data {
namespace {

Result<std::string> encode_pixels(const ImageRecord& record) {
  const auto* samples = reinterpret_cast<const std::uint8_t*>(record.bytes.data());
  return encode_png({.width = record.width,
                     .height = record.height,
                     .colour = record.channels == 1 ? PngColour::kGrey : PngColour::kRgb,
                     .samples = {samples, record.bytes.size()}});
}

}  // namespace

Result<EncodedImage> Reencoder::run(const ImageRecord& record) {
  XOE_ASSIGN(ImageFacts facts, read_image_facts(record, codecs_));
  const int shorter = std::min(facts.width, facts.height);
  const bool resize = options_.resize_shorter > 0 && shorter > options_.resize_shorter;
  std::string_view file = record.bytes;
  if (!facts.encoding) {
    XOE_ASSIGN(bytes_, encode_pixels(record));
    file = bytes_;
    facts.encoding = Encoding::kPng;
    facts.kind = traits_of(Encoding::kPng).name;
  }
  if (!resize) return EncodedImage{file, facts};
  Codec& codec = codecs_.of(*facts.encoding);
  XOE_TRY(codec.decode(file, decoded_));
  const double scale = static_cast<double>(options_.resize_shorter) / shorter;
  const auto scaled = [scale](int side) { return std::max(1, static_cast<int>(std::lround(side * scale))); };
  downscale(decoded_, scaled(facts.width), scaled(facts.height), downscaled_);
  const EncodeOptions options{
      .quality = options_.quality, .grey = facts.channels <= 2, .orientation = codec.orientation(file)};
  XOE_ASSIGN(bytes_, codec.encode(downscaled_, options));
  XOE_ASSIGN(facts, codec.facts(bytes_));
  return EncodedImage{bytes_, facts};
}

}  // namespace xoe::data

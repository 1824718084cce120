#include "data/cli/image_facts.h"

#include <algorithm>

#include "core/base/error.h"
#include "data/files/foreign_bytes.h"

namespace xoe::data {
namespace {

constexpr std::string_view kPngStart("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
constexpr std::uint32_t kMaxHeaderSide = 1U << 20;

std::uint32_t big(std::string_view bytes, std::size_t at, std::size_t count) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value = value << 8 | static_cast<std::uint8_t>(bytes[at + i]);
  return value;
}

Result<ImageFacts> sized(ImageFacts facts, std::uint32_t width, std::uint32_t height) {
  if (width == 0 || height == 0 || width > kMaxHeaderSide || height > kMaxHeaderSide)
    return failure(Code::kDataLoss, "an image of {} x {} pixels", width, height);
  facts.width = static_cast<int>(width);
  facts.height = static_cast<int>(height);
  return facts;
}

Result<ImageFacts> read_png(std::string_view png) {
  constexpr std::size_t kHeader = 33;
  if (png.size() < kHeader)
    return failure(Code::kDataLoss, "truncated: {} bytes are less than a PNG's header", png.size());
  ImageFacts facts{.kind = ImageKind::kPng, .bits = static_cast<int>(big(png, 24, 1))};
  switch (png[25]) {
    case 0: facts.channels = 1; break;
    case 2:
    case 3: facts.channels = 3; break;
    case 4: facts.channels = 2; break;
    case 6: facts.channels = 4; break;
    default: return failure(Code::kDataLoss, "a PNG of colour type {}", big(png, 25, 1));
  }
  return sized(facts, big(png, 16, 4), big(png, 20, 4));
}

bool is_frame(std::uint8_t marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}
// Markers without a length: start and end of the image, restarts.
bool has_no_length(std::uint8_t marker) { return marker == 0x01 || (marker >= 0xd0 && marker <= 0xd9); }

// Reads from marker to marker up to the frame header.
Result<ImageFacts> read_jpeg(std::string_view jpeg) {
  constexpr std::uint8_t kScan = 0xda;
  for (std::size_t at = 2; at < jpeg.size();) {
    at = std::min(jpeg.find('\xff', at), jpeg.size());
    at = std::min(jpeg.find_first_not_of('\xff', at), jpeg.size());
    if (at == jpeg.size()) break;
    const auto marker = static_cast<std::uint8_t>(jpeg[at++]);
    if (marker == 0 || has_no_length(marker)) continue;
    if (marker == kScan) return failure(Code::kDataLoss, "a JPEG without a frame header");
    if (jpeg.size() - at < 2) break;
    const std::size_t length = big(jpeg, at, 2);
    if (length < 2 || jpeg.size() - at < length) break;
    if (!is_frame(marker)) {
      at += length;
      continue;
    }
    if (length < 8) return failure(Code::kDataLoss, "a JPEG's frame header of {} bytes", length);
    const bool progressive = (marker & 3) == 2;
    const ImageFacts facts{.kind = progressive ? ImageKind::kProgressiveJpeg : ImageKind::kBaselineJpeg,
                           .channels = static_cast<int>(big(jpeg, at + 7, 1)),
                           .bits = static_cast<int>(big(jpeg, at + 2, 1))};
    return sized(facts, big(jpeg, at + 5, 2), big(jpeg, at + 3, 2));
  }
  return failure(Code::kDataLoss, "truncated: {} bytes of a JPEG without its size", jpeg.size());
}

}  // namespace

std::string_view image_kind_name(ImageKind kind) noexcept {
  switch (kind) {
    case ImageKind::kBaselineJpeg: return "baseline JPEG";
    case ImageKind::kProgressiveJpeg: return "progressive JPEG";
    case ImageKind::kPng: return "PNG";
    case ImageKind::kPixels: return "pixels";
  }
  return "?";
}

std::string_view ImageFacts::colour() const noexcept {
  switch (channels) {
    case 1: return "grey";
    case 2: return "grey with alpha";
    case 3: return "colour";
    case 4: return jpeg() ? "CMYK" : "colour with alpha";
    default: return "of unusual channels";
  }
}

Result<ImageFacts> read_image_facts(const ImageRecord& record) {
  if (record.width != 0) return ImageFacts{.width = record.width, .height = record.height, .channels = record.channels};
  if (record.bytes.starts_with(kPngStart)) return read_png(record.bytes);
  if (record.bytes.starts_with("\xff\xd8")) return read_jpeg(record.bytes);
  return failure(Code::kDataLoss, describe_no_image(record.bytes));
}

}  // namespace xoe::data

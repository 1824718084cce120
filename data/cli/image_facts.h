// The facts in an image's header, read without decoding it.
#pragma once

#include <cstdint>
#include <string_view>

#include "data/source/image_source.h"
#include "xoe/status.h"

namespace xoe::data {

enum class ImageKind : std::uint8_t { kBaselineJpeg, kProgressiveJpeg, kPng, kPixels };
std::string_view image_kind_name(ImageKind kind) noexcept;  // "progressive JPEG"

struct ImageFacts {
  ImageKind kind = ImageKind::kPixels;
  int width = 0;
  int height = 0;
  int channels = 0;  // as stored: 1 grey, 2 grey and alpha, 3 colour (or a palette), 4 CMYK, or colour and alpha
  int bits = 8;      // of a sample

  bool jpeg() const noexcept { return kind == ImageKind::kBaselineJpeg || kind == ImageKind::kProgressiveJpeg; }
  std::string_view colour() const noexcept;  // "grey", "colour", "CMYK", ...
};

// `data_loss`: neither JPEG nor PNG nor pixels, or truncated in front of the size.
Result<ImageFacts> read_image_facts(const ImageRecord& record);

}  // namespace xoe::data

// The bytes that a conversion writes for an image: its own, unless it must be resized or is raw pixels.
#pragma once

#include <string>
#include <string_view>

#include "data/cli/image_facts.h"
#include "data/image/image.h"
#include "data/source/image_source.h"

namespace xoe::data {

struct EncodedImage {
  std::string_view bytes;  // of a file
  ImageFacts facts;
  const EncodingTraits& encoding() const noexcept { return traits_of(*facts.encoding); }
};

struct ReencodeOptions {
  int resize_shorter = 0;  // pixels; images whose shorter side is longer are downscaled to it; 0: none
  int quality = 90;        // of downscaled JPEGs; every image keeps its encoding
};

// Keeps its memory from image to image. One thread at a time.
class Reencoder {
 public:
  explicit Reencoder(ReencodeOptions options) : options_(options) {}

  // Raw pixels become a PNG. The result points into the record or this object, until the next call. `data_loss`: not an
  // image, or one that must be decoded and is broken.
  Result<EncodedImage> run(const ImageRecord& record);

 private:
  ReencodeOptions options_;
  Codecs codecs_;
  Image decoded_;
  Image downscaled_;
  std::string bytes_;
};

}  // namespace xoe::data

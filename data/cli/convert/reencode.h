// The bytes that a conversion writes for an image: its own, unless it must be resized or is raw pixels.
#pragma once

#include <string>
#include <string_view>

#include "data/cli/image_facts.h"
#include "data/image/image.h"
#include "data/jpeg/jpeg.h"
#include "data/png/png.h"
#include "data/source/image_source.h"

namespace xoe::data {

struct EncodedImage {
  std::string_view bytes;  // a JPEG or PNG file
  ImageFacts facts;
  std::string_view extension() const noexcept { return facts.jpeg() ? "jpg" : "png"; }
};

struct ReencodeOptions {
  int resize_shorter = 0;  // pixels; images whose shorter side is longer are downscaled to it; 0: none
  int quality = 90;        // of downscaled JPEGs; PNGs stay PNGs
};

// Keeps its memory from image to image. One thread at a time.
class Reencoder {
 public:
  explicit Reencoder(ReencodeOptions options) : options_(options) {}

  // Raw pixels become a PNG. The result points into the record or this object, until the next call. `data_loss`: not an
  // image, or one that must be decoded and is broken.
  Result<EncodedImage> run(const ImageRecord& record);

 private:
  Status decode(const ImageRecord& record, const ImageFacts& facts);
  Result<EncodedImage> encode(const Image& image, bool jpeg, bool grey);

  ReencodeOptions options_;
  JpegDecoder jpeg_;
  PngDecoder png_;
  Image decoded_;
  Image downscaled_;
  std::string bytes_;
};

}  // namespace xoe::data

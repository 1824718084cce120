// What is written of an image: its file, unchanged where nothing else was asked for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "data/image/image.h"
#include "data/jpeg/jpeg.h"
#include "data/png/png.h"
#include "data/source/image_source.h"
#include "tools/data/image_facts.h"

namespace xoe::data {

struct Picture {
  std::string_view bytes;  // a JPEG or PNG file
  ImageFacts facts;
  std::string_view extension() const noexcept { return facts.jpeg() ? "jpg" : "png"; }
};

struct PictureOptions {
  int resize_shorter = 0;  // pixels; images whose shorter side is longer are shrunk to it; 0: none
  int quality = 90;        // of JPEGs that were shrunk; PNGs stay PNGs
};

// Keeps its memory from image to image. One thread at a time.
class PictureMaker {
 public:
  explicit PictureMaker(PictureOptions options) : options_(options) {}

  // Raw pixels become a PNG. The views are into the record or this object, until the next call. `data_loss`: no image,
  // or, when it has to be decoded, a broken one.
  Result<Picture> make(const ImageRecord& record);

 private:
  Status decode(const ImageRecord& record, const ImageFacts& facts);
  Result<Picture> encode(const Image& image, bool jpeg, bool grey);

  PictureOptions options_;
  JpegDecoder jpeg_;
  PngDecoder png_;
  Image decoded_;
  Image shrunk_;
  std::string bytes_;
};

}  // namespace xoe::data

// Decodes, crops, resizes and augments one record.
#pragma once

#include "data/image/image.h"
#include "data/image/resizer.h"
#include "data/load/image_decoder.h"
#include "xoe/data/image_maker.h"

namespace xoe::data {

// What is kept from image to image. One thread at a time.
struct ImageTools {
  ImageDecoder decoder;
  Resizer resizer;
  // Where pixels are changed as 8-bit images, between resizing and normalising:
  Image image;
  Image scratch;
  Resizer normaliser;
};

// `invalid_argument`: a size, type or augmentation that is not there, by name.
Status check(const ImageMaking& making);

// Writes 3 x size x size elements. `key` decides about everything random. REQUIRES: check(making).
Status make_image(ImageTools& tools, const ImageMaking& making, const ImageRecord& record, std::uint64_t key,
                  void* pixels);

}  // namespace xoe::data

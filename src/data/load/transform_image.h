// Decodes, crops, resizes and augments one record.
#pragma once

#include "data/image/image.h"
#include "data/image/resizer.h"
#include "data/load/image_decoder.h"
#include "xoe/data/image_transform.h"

namespace xoe::data {

// `invalid_argument`: an unknown size, type or augmentation, by name.
Status check(const ImageTransform& transform);

// Keeps its memory from image to image. One thread at a time.
class RecordTransformer {
 public:
  // Writes 3 x size x size elements. `key` decides everything random. REQUIRES: check(transform).
  Status run(const ImageTransform& transform, const ImageRecord& record, std::uint64_t key, void* pixels);

 private:
  void augment_and_normalise(const ImageTransform& transform, Random& random, void* pixels);

  ImageDecoder decoder_;
  Resizer resizer_;
  // For augmentations that are defined on 8-bit pixels, between resizing and normalising:
  Image image_;
  Image scratch_;
  Resizer normaliser_;
};

}  // namespace xoe::data

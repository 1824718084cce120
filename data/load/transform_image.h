// Decodes, crops, resizes and augments one record.
#pragma once

#include <cstdint>
#include <vector>

#include "data/codec/codec.h"
#include "data/image/image.h"
#include "data/image/push.h"
#include "data/image/resizer.h"
#include "data/image/turned.h"
#include "data/source/image_source.h"
#include "xoe/data/image_transform.h"

namespace xoe::data {

// `invalid_argument`: an unknown size, type or augmentation, by name.
Status check(const ImageTransform& transform);

// Decodes the image of a record: of an encoding that is read, or raw pixels. Keeps its memory from image to image. One
// thread at a time.
class ImageDecoder {
 public:
  // Reads the header; the size is of the image as `options` turns it. The record's bytes must stay valid until
  // decode() has returned. `data_loss`: no such image; `resource_exhausted`: more than options.max_pixels.
  Result<PixelSize> open(const ImageRecord& record, const PixelOptions& options);

  // Pushes at least `window` of the image. Only JPEGs that are stored as they are meant can be pushed as Colour::kYcc.
  Status decode(const PixelRect& window, Colour wanted, RowSink& sink);

 private:
  Result<PixelSize> open_pixels(std::int64_t max_pixels) const;
  Result<PixelSize> open_stored(const PixelOptions& options);
  Status decode_stored(const PixelRect& window, Colour wanted, RowSink& sink);
  void push_pixels(const PixelRect& window, RowSink& sink);

  ImageRecord record_;
  Codecs codecs_;
  Codec* codec_ = nullptr;  // null: pixels
  PixelRows rgb_;
  std::vector<std::uint8_t> grey_;  // one row with its slack
  PixelSize stored_;
  Turn turn_;
  TurnedRows turned_;
};

// Keeps its memory from image to image. One thread at a time.
class RecordTransformer {
 public:
  // Writes 3 x height x width elements. `key` decides everything random. REQUIRES: check(transform).
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

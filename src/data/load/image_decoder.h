// Decodes the image of a record: JPEG, PNG or raw pixels.
#pragma once

#include <cstdint>
#include <vector>

#include "data/image/planes.h"
#include "data/image/push.h"
#include "data/jpeg/reader.h"
#include "data/png/png.h"
#include "data/source/image_source.h"

namespace xoe::data {

// Keeps its memory from image to image. One thread at a time.
class ImageDecoder {
 public:
  struct Facts {
    int width = 0;
    int height = 0;
  };

  // Reads the header. The record's bytes must stay valid until decode() has returned. `data_loss`: no JPEG, PNG or
  // pixels.
  Result<Facts> open(const ImageRecord& record);

  // Pushes at least `window` of the image. Only JPEGs can be pushed as Colour::kYcc.
  Status decode(const PixelRect& window, Colour wanted, RowSink& sink);

 private:
  void push_pixels(const PixelRect& window, RowSink& sink);

  enum class Kind : std::uint8_t { kJpeg, kPng, kPixels };

  Kind kind_ = Kind::kPixels;
  ImageRecord record_;
  JpegReader jpeg_;
  PngDecoder png_;
  PixelRows rgb_;
  std::vector<std::uint8_t> grey_;  // one row with its slack
};

}  // namespace xoe::data

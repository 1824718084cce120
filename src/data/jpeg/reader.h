// Reads a window of a JPEG, row by row, as fast as Xoe can.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "data/image/planes.h"
#include "data/jpeg/jpeg.h"
#include "xoe/status.h"

namespace xoe::data {

// Xoe's own decoder for the JPEGs that nearly everybody writes: 8-bit baseline, grey or YCbCr with 4:4:4, 4:2:2, 4:4:0
// or 4:2:0 sampling. Everything else, and everything that looks damaged, goes through libjpeg-turbo, whose pixels and
// verdict count. Keeps its memory and tables from image to image. One thread at a time.
class JpegReader {
 public:
  explicit JpegReader(std::int64_t max_pixels = kMaxPixels);
  JpegReader(JpegReader&&) noexcept;
  JpegReader& operator=(JpegReader&&) noexcept;
  ~JpegReader();

  // Reads the headers. Errors as JpegDecoder's. The bytes must stay until the last decode().
  Result<JpegHeader> open(std::string_view jpeg);

  // Pushes the rows of `window` of the opened image into `sink`; may be called again for another one.
  // kRgb: each pixel is what JpegDecoder makes of the whole image. kYcc: the planes as stored, chroma with one sample
  // more than lies over the window on each side where the image has it. Grey images come as kGrey whatever is wanted,
  // images whose planes cannot be had (JpegHeader::down is 0) as kRgb. `data_loss`: broken within the rows of blocks
  // that the window needs; faults below it may go unseen. The sink may then have received rows. REQUIRES: the window is
  // within the image and not empty; `wanted` is not kGrey.
  Status decode(const PixelRect& window, Colour wanted, RowSink& sink);

  // Whether the last decode() went through libjpeg-turbo.
  bool fell_back() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace xoe::data

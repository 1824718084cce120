// Reads a window of a JPEG row by row, with Xoe's own decoder or libjpeg-turbo.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "data/image/planes.h"
#include "data/jpeg/baseline.h"
#include "data/jpeg/frame.h"
#include "data/jpeg/jpeg.h"
#include "xoe/status.h"

namespace xoe::data {

// Xoe's own decoder for nearly all JPEGs in use: 8-bit baseline, grey or YCbCr with 4:4:4, 4:2:2, 4:4:0 or 4:2:0
// sampling. All other JPEGs, and all that look damaged, go through libjpeg-turbo, whose pixels and errors are
// authoritative. Keeps its memory and tables from image to image. One thread at a time.
class JpegReader {
 public:
  // Reads the headers. The errors are JpegDecoder's. The bytes must stay valid until the last decode().
  Result<JpegHeader> open(std::string_view jpeg, std::int64_t max_pixels = kMaxPixels);

  // Pushes the rows of `window` of the opened image into `sink`; may be called again for another window.
  // kRgb: the pixels equal JpegDecoder's. kYcc: the planes as stored, chroma with one sample more on each side of the
  // window, where the image has it. Grey images come as kGrey, and images without such planes (JpegHeader::down is 0)
  // as kRgb, whatever is wanted. `data_loss`: broken within the rows of blocks that the window needs, of which the sink
  // may have received some; damage below the window may go unnoticed. REQUIRES: the window is within the image and not
  // empty; `wanted` is not kGrey.
  Status decode(const PixelRect& window, Colour wanted, RowSink& sink);

  // Whether the last decode() went through libjpeg-turbo.
  bool fell_back() const noexcept { return fell_back_; }

 private:
  // The rows from `first` of each plane on.
  Status decode_by_turbo(Colour colour, const jpeg::DecodeArea& area, const std::array<int, 3>& first, RowSink& sink);

  std::int64_t max_pixels_ = kMaxPixels;
  std::string_view bytes_;
  JpegHeader header_;
  jpeg::Frame frame_;
  bool framed_ = false;  // the own decoder takes this JPEG
  bool fell_back_ = false;
  jpeg::BaselineDecoder baseline_;
  JpegDecoder turbo_;
  Image image_;
  JpegPlanes planes_;
};

}  // namespace xoe::data

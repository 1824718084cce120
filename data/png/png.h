// PNG to pixels and back, with libpng.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "data/image/image.h"
#include "data/image/planes.h"
#include "xoe/status.h"

namespace xoe::data {

inline constexpr std::int64_t kMaxPngPixels = std::int64_t{1} << 26;

struct PngHeader {
  int width = 0;
  int height = 0;
  bool grey = false;  // one plane; else three
  int bits = 8;       // of a sample as stored: 1, 2, 4, 8 or 16
  bool interlaced = false;
};

// Decodes every kind of PNG to 8 bits a sample: 16 bits are scaled and rounded (v * 255 / 65535), fewer than 8 scaled
// to 0 to 255, palettes expanded. Alpha and transparent colours are dropped, gamma and profiles ignored, as TensorFlow
// and Pillow do. Keeps its memory between images. One thread at a time.
//
// Errors: `data_loss`, with libpng's message: broken or truncated before the end of the pixels; `resource_exhausted`:
// more than `max_pixels`, checked before memory is allocated.
class PngDecoder {
 public:
  PngDecoder();
  PngDecoder(PngDecoder&&) noexcept;
  PngDecoder& operator=(PngDecoder&&) noexcept;
  ~PngDecoder();

  // The bytes must stay valid until push() has returned.
  Result<PngHeader> open(std::string_view png, std::int64_t max_pixels = kMaxPngPixels);

  // Must be called once after open(). Pushes the rows of `window`, which must lie within the image. Does not decode the
  // rows below it, so damage there may go unnoticed, unless the image is interlaced: then all are decoded. On an error
  // the sink has received the rows above the damage.
  Status push(const PixelRect& window, RowSink& sink);

  // Decodes the whole image, grey as equal colours.
  Status decode(std::string_view png, Image& image, std::int64_t max_pixels = kMaxPngPixels);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

enum class PngColour : std::uint8_t { kGrey, kGreyAlpha, kRgb, kRgba, kPalette };

struct PngPicture {
  int width = 0;
  int height = 0;
  PngColour colour = PngColour::kRgb;
  int bits = 8;
  bool interlaced = false;
  // Row by row without gaps, in PNG's format: each row starts at a byte, with the leftmost pixel in the highest bits;
  // 16 bits with the higher byte first.
  std::span<const std::uint8_t> samples = {};
  std::span<const std::array<std::uint8_t, 3>> palette = {};
};

// `invalid_argument`: a combination that PNG does not allow, or samples that do not fit the size.
Result<std::string> encode_png(const PngPicture& picture);
Result<std::string> encode_png(const Image& image);

}  // namespace xoe::data

// Decoders push rows of planes into a RowSink, from top to bottom, so that no whole image is kept.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace xoe::data {

// Whole pixels; x and y count from the image's upper left corner.
struct PixelRect {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;

  int right() const noexcept { return x + width; }
  int bottom() const noexcept { return y + height; }
  friend bool operator==(const PixelRect&, const PixelRect&) = default;
};

enum class Colour : std::uint8_t {
  kGrey,  // one plane
  kRgb,   // three planes of the image's size
  kYcc,   // JPEG's full-range Y, Cb, Cr (BT.601); the last two may be smaller
};

// Plane p holds one sample for every across[p] x down[p] pixels; its sample (i, j) is centred over those pixels.
struct PlaneLayout {
  Colour colour = Colour::kRgb;
  int width = 0;  // of the image, pixels
  int height = 0;
  std::array<int, 3> across = {1, 1, 1};
  std::array<int, 3> down = {1, 1, 1};

  int planes() const noexcept { return colour == Colour::kGrey ? 1 : 3; }
};

// Bytes behind the samples of a row that may be read, so that vector loads need no tail; their values mean nothing.
inline constexpr std::size_t kRowSlack = 64;

class RowSink {
 public:
  virtual ~RowSink() = default;

  // Called once, before the first row. Rows of plane p carry the samples from window[p].x up to window[p].right(), for
  // each y from window[p].y up to window[p].bottom(). The windows cover at least the requested pixels.
  virtual void start(const PlaneLayout& layout, const std::array<PixelRect, 3>& window) = 0;

  // `samples` points at sample window[plane].x of row y and is valid until row() returns. The rows of a plane come in
  // order, each once; the planes may be interleaved in any way.
  virtual void row(int plane, int y, const std::uint8_t* samples) = 0;
};

}  // namespace xoe::data

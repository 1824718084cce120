// How decoded pixels travel from a decoder to whoever resizes them: rows of planes, from top to bottom, with no whole
// image in between.
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

// So many bytes behind the samples of a row may be read (their values mean nothing), so that vector loads need no care.
inline constexpr std::size_t kRowSlack = 64;

class RowSink {
 public:
  virtual ~RowSink() = default;

  // Once, before the first row. Rows of plane p carry samples window[p].x up to window[p].right(), for each y from
  // window[p].y up to window[p].bottom(); the windows cover at least the pixels that were asked for.
  virtual void start(const PlaneLayout& layout, const std::array<PixelRect, 3>& window) = 0;

  // `samples` points at sample window[plane].x of row y and is valid until row() returns. Rows of one plane come in
  // order, each once; planes may be interleaved in any way.
  virtual void row(int plane, int y, const std::uint8_t* samples) = 0;
};

}  // namespace xoe::data

// Images that are stored turned, as cameras write them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/image/planes.h"

namespace xoe::data {

// From the image as it is meant to the image as it is stored: with (width, height) of the stored one, pixel (x, y) is
// at (y, x) if transposed, else at (x, y), and then counted from the right or from below.
struct Turn {
  bool transposed = false;
  bool from_right = false;
  bool from_below = false;

  bool none() const noexcept { return !transposed && !from_right && !from_below; }
};

// Of EXIF's orientations 1 to 8; none for other numbers.
Turn turn_of(int orientation) noexcept;

// The part of an image of width x height stored pixels that holds `window` of the turned one; and the other way round.
PixelRect stored_window(const PixelRect& window, Turn turn, int width, int height) noexcept;
PixelRect turned_window(const PixelRect& window, Turn turn, int width, int height) noexcept;

// Takes the rows of a window of the stored image, grey or RGB, and then pushes those of the turned one. Keeps its
// memory from image to image: a byte for each sample of the window.
class TurnedRows final : public RowSink {
 public:
  void prepare(Turn turn) noexcept { turn_ = turn; }
  void start(const PlaneLayout& layout, const std::array<PixelRect, 3>& window) override;
  void row(int plane, int y, const std::uint8_t* samples) override;

  // Must be called after the last row.
  void push(RowSink& sink) const;

 private:
  Turn turn_;
  PlaneLayout layout_;  // as stored
  PixelRect window_;
  PixelRect turned_;
  std::size_t stride_ = 0;
  std::array<std::vector<std::uint8_t>, 3> planes_;
};

}  // namespace xoe::data

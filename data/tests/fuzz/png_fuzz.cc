// PNGs: any bytes, one decoder for all of them, as a worker has it. A part of an image and the whole of it get one
// answer.
#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "core/testing/fuzz/memory_file.h"
#include "data/png/png.h"
#include "target.h"

namespace {

using xoe::require;
using xoe::data::PixelRect;

// Keeps the samples, and reads those behind each row, too, whose overruns a sanitizer shall see.
class Rows : public xoe::data::RowSink {
 public:
  void start(const xoe::data::PlaneLayout& layout, const std::array<PixelRect, 3>& window) override {
    window_ = window[0];
    planes_ = layout.planes();
    for (auto& plane : samples_) plane.clear();
  }
  void row(int plane, int, const std::uint8_t* samples) override {
    const auto width = static_cast<std::size_t>(window_.width);
    auto& kept = samples_[static_cast<std::size_t>(plane)];
    kept.insert(kept.end(), samples, samples + width);
    unsigned sum = 0;
    for (std::size_t x = width; x < width + xoe::data::kRowSlack; ++x) sum += samples[x];
    total_ = total_ + sum;
  }

  // Whether these are the samples that `whole`, which has all of the image, has there.
  bool is_part_of(const Rows& whole) const {
    if (planes_ != whole.planes_) return false;
    const auto width = static_cast<std::size_t>(window_.width);
    const auto whole_width = static_cast<std::size_t>(whole.window_.width);
    for (std::size_t plane = 0; plane < static_cast<std::size_t>(planes_); ++plane) {
      if (samples_[plane].size() != width * static_cast<std::size_t>(window_.height)) return false;
      for (std::size_t y = 0; y < static_cast<std::size_t>(window_.height); ++y) {
        const std::size_t at = (y + static_cast<std::size_t>(window_.y)) * whole_width;
        const auto* there = whole.samples_[plane].data() + at + static_cast<std::size_t>(window_.x);
        if (!std::equal(there, there + width, samples_[plane].data() + y * width)) return false;
      }
    }
    return true;
  }

 private:
  PixelRect window_;
  int planes_ = 0;
  std::array<std::vector<std::uint8_t>, 3> samples_;
  volatile unsigned total_ = 0;
};

}  // namespace

// The last byte says how much of the image is wanted.
XOE_FUZZ_TARGET(png_fuzz) {
  static xoe::data::PngDecoder decoder;
  constexpr std::int64_t kFewPixels = 1 << 16;  // keeps a round short
  const std::string_view png(reinterpret_cast<const char*>(bytes), size);
  const auto header = decoder.open(png, kFewPixels);
  if (!header) return 0;
  const int share = size > 0 ? bytes[size - 1] % 4 : 0;
  const int x = header->width * share / 8;
  const int y = header->height * share / 8;
  const PixelRect window{x, y, header->width - x, header->height - y * 2};
  Rows part;
  const bool part_is_right = decoder.push(window, part).has_value();
  require(decoder.open(png, kFewPixels).has_value());
  Rows whole;
  const bool whole_is_right = decoder.push({0, 0, header->width, header->height}, whole).has_value();
  require(part_is_right || !whole_is_right);
  // Where all rows are decoded for the part, damage anywhere is damage of both; else it may lie below the part.
  if (header->interlaced || window.bottom() == header->height) require(part_is_right == whole_is_right);
  if (whole_is_right) require(part.is_part_of(whole));
  return 0;
}

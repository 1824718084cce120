// PNGs: any bytes, one decoder for all of them, as a worker has it.
#include <cstdlib>

#include "data/png/png.h"
#include "target.h"

namespace {

// Reads every sample, whose overruns a sanitizer shall see.
class Sum : public xoe::data::RowSink {
 public:
  void start(const xoe::data::PlaneLayout&, const std::array<xoe::data::PixelRect, 3>& window) override {
    width_ = static_cast<std::size_t>(window[0].width);
  }
  void row(int, int, const std::uint8_t* samples) override {
    unsigned sum = 0;
    for (std::size_t x = 0; x < width_ + xoe::data::kRowSlack; ++x) sum += samples[x];
    total_ = total_ + sum;
  }

 private:
  std::size_t width_ = 0;
  volatile unsigned total_ = 0;
};

}  // namespace

// The last byte says how much of the image is wanted.
XOE_FUZZ_TARGET(png_fuzz) {
  static xoe::data::PngDecoder decoder;
  constexpr std::int64_t kFewPixels = 1 << 16;  // keeps a round short
  const auto header = decoder.open({reinterpret_cast<const char*>(bytes), size}, kFewPixels);
  if (!header) return 0;
  const int part = size > 0 ? bytes[size - 1] % 4 : 0;
  const int x = header->width * part / 8;
  const int y = header->height * part / 8;
  Sum sum;
  (void)decoder.push({x, y, header->width - x, header->height - y * 2}, sum);
  return 0;
}

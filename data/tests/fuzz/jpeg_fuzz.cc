// JPEG headers and data: any bytes, one decoder for all of them, as a worker has it.
#include <cstdlib>

#include "data/jpeg/jpeg.h"
#include "target.h"

XOE_FUZZ_TARGET(jpeg_fuzz) {
  static xoe::data::JpegDecoder decoder;
  static xoe::data::Image image;
  constexpr std::int64_t kFewPixels = 1 << 16;  // keeps a round short
  unsigned sum = 0;
  if (decoder.decode({reinterpret_cast<const char*>(bytes), size}, image, kFewPixels))
    for (int y = 0; y < image.height(); ++y)
      for (int x = 0; x < 3 * image.width(); ++x) sum += image.row(y)[x];
  // Keeps the reads above, whose overruns a sanitizer shall see.
  [[maybe_unused]] static volatile unsigned consumed;
  consumed = sum;
  return 0;
}

// The own JPEG decoder against libjpeg-turbo: any bytes, the same verdict and the same pixels.
#include <cstring>

#include "core/testing/fuzz/memory_file.h"
#include "data/jpeg/reader.h"
#include "target.h"

namespace {

using namespace xoe::data;

using xoe::require;

// Compares with the whole image or its planes as rows come.
class ComparingSink : public RowSink {
 public:
  ComparingSink(const Image& image, const JpegPlanes& planes) : image_(image), planes_(planes) {}

  void start(const PlaneLayout& layout, const std::array<PixelRect, 3>& window) override {
    layout_ = layout;
    window_ = window;
  }
  void row(int plane, int y, const std::uint8_t* samples) override {
    const auto p = static_cast<std::size_t>(plane);
    const auto width = static_cast<std::size_t>(window_[p].width);
    ++rows_;
    if (!accepted) return;
    if (layout_.colour == Colour::kYcc) {
      require(std::memcmp(samples, planes_.row(p, y) + window_[p].x, width) == 0);
      return;
    }
    const std::uint8_t* pixels = image_.row(y) + 3 * window_[p].x + plane;
    for (std::size_t x = 0; x < width; ++x) require(samples[x] == pixels[3 * x]);
  }
  void require_complete() const {
    int rows = 0;
    for (int p = 0; p < layout_.planes(); ++p) rows += window_[static_cast<std::size_t>(p)].height;
    require(rows == rows_);
  }

  bool accepted = false;  // libjpeg-turbo likes the image: there is something to compare with

 private:
  const Image& image_;
  const JpegPlanes& planes_;
  PlaneLayout layout_;
  std::array<PixelRect, 3> window_;
  int rows_ = 0;
};

}  // namespace

XOE_FUZZ_TARGET(jpeg_reader_fuzz) {
  constexpr std::int64_t kFewPixels = 1 << 16;  // keeps a round short
  static JpegDecoder turbo;
  static JpegReader reader;
  static Image image;
  static JpegPlanes planes;
  const std::string_view jpeg(reinterpret_cast<const char*>(bytes), size);
  const bool accepted = turbo.decode(jpeg, image, kFewPixels).has_value();
  const auto header = reader.open(jpeg, kFewPixels);
  require(header || !accepted);
  if (!header) return 0;
  require(!accepted || (header->width == image.width() && header->height == image.height()));
  const bool stored = !header->grey && header->down > 0;
  const bool planes_accepted = stored && turbo.decode_planes(jpeg, planes, kFewPixels).has_value();

  unsigned hash = 1;
  for (std::size_t i = 0; i < size; ++i) hash = 31 * hash + bytes[i];
  const auto draw = [&](int below) {
    hash = 1664525 * hash + 1013904223;
    return static_cast<int>((hash >> 8) % static_cast<unsigned>(below));
  };
  const int x = draw(header->width);
  const int y = draw(header->height);
  const PixelRect whole{0, 0, header->width, header->height};
  const PixelRect part{x, y, 1 + draw(header->width - x), 1 + draw(header->height - y)};
  for (const Colour colour : {Colour::kRgb, Colour::kYcc})
    for (const PixelRect& window : {whole, part}) {
      ComparingSink sink(image, planes);
      sink.accepted = colour == Colour::kYcc && stored ? planes_accepted : accepted;
      const bool decoded = reader.decode(window, colour, sink).has_value();
      // A part may not see what is wrong elsewhere.
      require(decoded == sink.accepted || (decoded && !(window == whole)));
      if (decoded) sink.require_complete();
    }
  return 0;
}

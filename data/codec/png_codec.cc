#include <vector>

#include "core/base/error.h"
#include "data/codec/big_endian.h"
#include "data/codec/codec.h"
#include "data/files/foreign_bytes.h"
#include "data/png/png.h"

namespace xoe::data {
namespace {

Result<std::string> encode_grey(const Image& image) {
  std::vector<std::uint8_t> samples(static_cast<std::size_t>(image.width()) * static_cast<std::size_t>(image.height()));
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = image.row(0)[3 * i];
  return encode_png({.width = image.width(), .height = image.height(), .colour = PngColour::kGrey, .samples = samples});
}

class PngCodec final : public Codec {
 public:
  Result<PixelSize> open(std::string_view bytes, std::int64_t max_pixels) override {
    XOE_ASSIGN(const PngHeader header, decoder_.open(bytes, max_pixels));
    return PixelSize{header.width, header.height};
  }
  Status push(const PixelRect& window, Colour, RowSink& sink) override { return decoder_.push(window, sink); }

  Status decode(std::string_view bytes, Image& image) override { return decoder_.decode(bytes, image); }
  Result<std::string> encode(const Image& image, const EncodeOptions& options) const override {
    return options.grey ? encode_grey(image) : encode_png(image);
  }

  Result<ImageFacts> facts(std::string_view bytes) const override {
    constexpr std::size_t kHeader = 33;
    constexpr std::string_view kFirstChunk("\0\0\0\rIHDR", 8);
    if (bytes.size() >= 16 && bytes.substr(8, 8) != kFirstChunk)
      return failure(Code::kDataLoss, describe_no_image(bytes));
    if (bytes.size() < kHeader)
      return failure(Code::kDataLoss, "truncated: {} bytes are less than a PNG's header", bytes.size());
    ImageFacts facts{.encoding = Encoding::kPng, .kind = "PNG", .bits = static_cast<int>(big_endian(bytes, 24, 1))};
    switch (bytes[25]) {
      case 0: facts.channels = 1; break;
      case 2:
      case 3: facts.channels = 3; break;
      case 4: facts.channels = 2; break;
      case 6: facts.channels = 4; break;
      default: return failure(Code::kDataLoss, "a PNG of colour type {}", big_endian(bytes, 25, 1));
    }
    return sized(facts, big_endian(bytes, 16, 4), big_endian(bytes, 20, 4));
  }

 private:
  PngDecoder decoder_;
};

}  // namespace

std::unique_ptr<Codec> make_png_codec() { return std::make_unique<PngCodec>(); }

}  // namespace xoe::data

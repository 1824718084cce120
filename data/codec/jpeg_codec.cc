#include <algorithm>

#include "core/base/error.h"
#include "data/codec/big_endian.h"
#include "data/codec/codec.h"
#include "data/jpeg/exif.h"
#include "data/jpeg/jpeg.h"
#include "data/jpeg/reader.h"

namespace xoe::data {
namespace {

bool is_frame(std::uint8_t marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}
// Markers without a length: start and end of the image, restarts.
bool has_no_length(std::uint8_t marker) { return marker == 0x01 || (marker >= 0xd0 && marker <= 0xd9); }

class JpegCodec final : public Codec {
 public:
  Result<PixelSize> open(std::string_view bytes, std::int64_t max_pixels) override {
    XOE_ASSIGN(const JpegHeader header, reader_.open(bytes, max_pixels));
    return PixelSize{header.width, header.height};
  }
  Status push(const PixelRect& window, Colour wanted, RowSink& sink) override {
    return reader_.decode(window, wanted, sink);
  }
  int orientation(std::string_view bytes) const override { return exif_orientation(bytes); }

  Status decode(std::string_view bytes, Image& image) override { return decoder_.decode(bytes, image); }
  Result<std::string> encode(const Image& image, const EncodeOptions& options) const override {
    XOE_ASSIGN(std::string bytes, encode_jpeg(image, {.quality = options.quality, .grey = options.grey}));
    return options.orientation == 1 ? std::move(bytes) : with_orientation(bytes, options.orientation);
  }

  // Reads from marker to marker up to the frame header.
  Result<ImageFacts> facts(std::string_view bytes) const override {
    constexpr std::uint8_t kScan = 0xda;
    for (std::size_t at = 2; at < bytes.size();) {
      at = std::min(bytes.find('\xff', at), bytes.size());
      at = std::min(bytes.find_first_not_of('\xff', at), bytes.size());
      if (at == bytes.size()) break;
      const auto marker = static_cast<std::uint8_t>(bytes[at++]);
      if (marker == 0 || has_no_length(marker)) continue;
      if (marker == kScan) return failure(Code::kDataLoss, "a JPEG without a frame header");
      if (bytes.size() - at < 2) break;
      const std::size_t length = big_endian(bytes, at, 2);
      if (length < 2 || bytes.size() - at < length) break;
      if (is_frame(marker)) return facts_of_frame(marker, bytes.substr(at, length));
      at += length;
    }
    return failure(Code::kDataLoss, "truncated: {} bytes of a JPEG without its size", bytes.size());
  }

 private:
  static Result<ImageFacts> facts_of_frame(std::uint8_t marker, std::string_view frame) {
    if (frame.size() < 8) return failure(Code::kDataLoss, "a JPEG's frame header of {} bytes", frame.size());
    const bool progressive = (marker & 3) == 2;
    const int channels = static_cast<int>(big_endian(frame, 7, 1));
    return sized({.encoding = Encoding::kJpeg,
                  .kind = progressive ? "progressive JPEG" : "baseline JPEG",
                  .channels = channels,
                  .bits = static_cast<int>(big_endian(frame, 2, 1)),
                  .cmyk = channels == 4},
                 big_endian(frame, 5, 2), big_endian(frame, 3, 2));
  }

  JpegReader reader_;
  JpegDecoder decoder_;
};

}  // namespace

std::unique_ptr<Codec> make_jpeg_codec() { return std::make_unique<JpegCodec>(); }

}  // namespace xoe::data

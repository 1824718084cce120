// Opens, decodes and encodes images, and reads the facts in their headers: a codec for each encoding.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/files/encoding.h"
#include "data/image/image.h"
#include "data/image/planes.h"
#include "xoe/status.h"

namespace xoe::data {

struct PixelSize {
  int width = 0;
  int height = 0;
};

struct ImageFacts {
  std::optional<Encoding> encoding = {};  // none: pixels
  std::string_view kind = "pixels";       // "progressive JPEG"
  int width = 0;
  int height = 0;
  int channels = 0;  // as stored: 1 grey, 2 grey and alpha, 3 colour (or a palette), 4 CMYK, or colour and alpha
  int bits = 8;      // of a sample
  bool cmyk = false;

  std::string_view colour() const noexcept;  // "grey", "colour", "CMYK", ...
};
// Facts with this size. `data_loss`: it is 0 or absurd.
Result<ImageFacts> sized(ImageFacts facts, std::uint32_t width, std::uint32_t height);

struct EncodeOptions {
  int quality = 90;  // of encodings that lose something
  bool grey = false;
  int orientation = 1;  // noted in the file, where its encoding can
};

// Keeps its memory from image to image. One thread at a time. Bytes begin as encoding_of() wants.
//
// Errors: `data_loss`: broken or truncated; `resource_exhausted`: more pixels than are allowed, before there is memory
// for them.
class Codec {
 public:
  virtual ~Codec() = default;

  // Reads the header. The bytes must stay valid until the last push().
  virtual Result<PixelSize> open(std::string_view bytes, std::int64_t max_pixels) = 0;
  // Pushes at least `window` of the opened image; damage below it may go unnoticed. Planes come as `wanted` where the
  // image has them so, else as kGrey or kRgb.
  virtual Status push(const PixelRect& window, Colour wanted, RowSink& sink) = 0;
  // How the image that was opened has to be turned before it is shown, as a number of EXIF: 1 for as it is.
  virtual int orientation(std::string_view bytes) const;

  // The whole image as RGB, and every damage in it.
  virtual Status decode(std::string_view bytes, Image& image) = 0;
  virtual Result<std::string> encode(const Image& image, const EncodeOptions& options) const = 0;
  // Without decoding.
  virtual Result<ImageFacts> facts(std::string_view bytes) const = 0;
};

std::unique_ptr<Codec> make_jpeg_codec();
std::unique_ptr<Codec> make_png_codec();

// Those of a thread, made when they are needed first.
class Codecs {
 public:
  Codec& of(Encoding encoding);

 private:
  std::array<std::unique_ptr<Codec>, kEncodings.size()> made_;
};

}  // namespace xoe::data

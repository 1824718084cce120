#include <png.h>

#include <array>
#include <csetjmp>
#include <cstring>

#include "base/error.h"
#include "data/png/png.h"

namespace xoe::data {
namespace {

struct PngEncodeSession {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::string bytes;
  std::jmp_buf jump = {};
  std::array<char, 160> message = {};

  PngEncodeSession() = default;
  PngEncodeSession(const PngEncodeSession&) = delete;
  PngEncodeSession& operator=(const PngEncodeSession&) = delete;
  ~PngEncodeSession() { png_destroy_write_struct(&png, &info); }
};

[[noreturn]] void on_write_error(png_structp png, png_const_charp words) {
  auto& session = *static_cast<PngEncodeSession*>(png_get_error_ptr(png));
  std::strncpy(session.message.data(), words, session.message.size() - 1);
  std::longjmp(session.jump, 1);
}

void ignore_write_warning(png_structp, png_const_charp) {}

void write_bytes(png_structp png, png_bytep from, std::size_t count) {
  static_cast<PngEncodeSession*>(png_get_io_ptr(png))->bytes.append(reinterpret_cast<const char*>(from), count);
}

void flush(png_structp) {}

int colour_type(PngColour colour) {
  switch (colour) {
    case PngColour::kGrey: return PNG_COLOR_TYPE_GRAY;
    case PngColour::kGreyAlpha: return PNG_COLOR_TYPE_GRAY_ALPHA;
    case PngColour::kRgb: return PNG_COLOR_TYPE_RGB;
    case PngColour::kRgba: return PNG_COLOR_TYPE_RGB_ALPHA;
    case PngColour::kPalette: return PNG_COLOR_TYPE_PALETTE;
  }
  return PNG_COLOR_TYPE_RGB;
}

std::size_t samples_of(PngColour colour) {
  switch (colour) {
    case PngColour::kGrey:
    case PngColour::kPalette: return 1;
    case PngColour::kGreyAlpha: return 2;
    case PngColour::kRgb: return 3;
    case PngColour::kRgba: return 4;
  }
  return 1;
}

// Owns no object with a destructor, because libpng leaves it by a jump.
bool write_png(PngEncodeSession& session, const PngPicture& picture, std::size_t row_bytes, png_const_colorp palette) {
  if (setjmp(session.jump) != 0) return false;
  png_structp png = session.png;
  png_set_write_fn(png, &session, write_bytes, flush);
  png_set_IHDR(png, session.info, static_cast<png_uint_32>(picture.width), static_cast<png_uint_32>(picture.height),
               picture.bits, colour_type(picture.colour), picture.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (picture.colour == PngColour::kPalette)
    png_set_PLTE(png, session.info, palette, static_cast<int>(picture.palette.size()));
  png_write_info(png, session.info);
  const int passes = png_set_interlace_handling(png);
  for (int pass = 0; pass < passes; ++pass)
    for (int y = 0; y < picture.height; ++y)
      png_write_row(png, picture.samples.data() + static_cast<std::size_t>(y) * row_bytes);
  png_write_end(png, session.info);
  return true;
}

}  // namespace

Result<std::string> encode_png(const PngPicture& picture) {
  if (picture.width < 1 || picture.height < 1 || picture.bits < 1 || picture.bits > 16)
    return failure(Code::kInvalidArgument, "PNG of {} x {} pixels with {} bits: there is no such thing", picture.width,
                   picture.height, picture.bits);
  const std::size_t bits = samples_of(picture.colour) * static_cast<std::size_t>(picture.bits);
  const std::size_t row_bytes = (static_cast<std::size_t>(picture.width) * bits + 7) / 8;
  if (picture.samples.size() != row_bytes * static_cast<std::size_t>(picture.height))
    return failure(Code::kInvalidArgument, "PNG of {} x {} pixels with {} bits each: {} bytes of samples",
                   picture.width, picture.height, bits, picture.samples.size());
  if (picture.palette.size() > PNG_MAX_PALETTE_LENGTH)
    return failure(Code::kInvalidArgument, "PNG: a palette of {} colours; at most {}", picture.palette.size(),
                   PNG_MAX_PALETTE_LENGTH);
  std::array<png_color, PNG_MAX_PALETTE_LENGTH> palette = {};
  for (std::size_t i = 0; i < picture.palette.size(); ++i)
    palette[i] = {picture.palette[i][0], picture.palette[i][1], picture.palette[i][2]};
  PngEncodeSession session;
  session.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &session, on_write_error, ignore_write_warning);
  if (session.png != nullptr) session.info = png_create_info_struct(session.png);
  if (session.info == nullptr) return failure(Code::kResourceExhausted, "PNG: no memory for libpng");
  if (!write_png(session, picture, row_bytes, palette.data()))
    return failure(Code::kInvalidArgument, "PNG: {}", session.message.data());
  return std::move(session.bytes);
}

Result<std::string> encode_png(const Image& image) {
  return encode_png({.width = image.width(), .height = image.height(), .samples = {image.row(0), image.bytes()}});
}

}  // namespace xoe::data

#include "data/png/png.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "data/image/push.h"
#include "data/image/too_large.h"

namespace xoe::data {

// Where libpng's errors leave their message and jump to.
struct PngFailure {
  std::jmp_buf jump = {};
  std::array<char, 160> message = {};
};

// The bytes that libpng's callbacks read.
struct PngBytes : PngFailure {
  std::string_view rest;
};

namespace {

constexpr png_alloc_size_t kMaxChunk = png_alloc_size_t{1} << 20;  // bytes that a chunk other than pixels may take

// Texts and profiles are skipped, which are unused and cost time to unpack.
constexpr std::string_view kSkipped("iCCP\0eXIf\0iTXt\0tEXt\0zTXt\0sPLT\0hIST\0pCAL\0tIME\0", 45);

[[noreturn]] void on_png_error(png_structp png, png_const_charp words) {
  auto& failed = *static_cast<PngFailure*>(png_get_error_ptr(png));
  std::strncpy(failed.message.data(), words, failed.message.size() - 1);
  std::longjmp(failed.jump, 1);
}

void ignore_png_warning(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep to, std::size_t count) {
  auto& source = *static_cast<PngBytes*>(png_get_io_ptr(png));
  if (count > source.rest.size()) png_error(png, "the file ends too early");
  std::memcpy(to, source.rest.data(), count);
  source.rest.remove_prefix(count);
}

// Functions that call setjmp own no object with a destructor, and use no local variable after the jump.

bool read_info(png_structp png, png_infop info, PngBytes& source) {
  if (setjmp(source.jump) != 0) return false;
  png_set_read_fn(png, &source, read_bytes);
  png_set_chunk_malloc_max(png, kMaxChunk);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, reinterpret_cast<png_const_bytep>(kSkipped.data()),
                              static_cast<int>(kSkipped.size() / 5));
  png_read_info(png, info);
  return true;
}

// Sets up the conversion to 8-bit grey or RGB. Returns the bytes of a row; 0: an error.
std::size_t start_rows(png_structp png, png_infop info, PngBytes& source) {
  if (setjmp(source.jump) != 0) return 0;
  png_set_scale_16(png);
  png_set_palette_to_rgb(png);
  if (png_get_color_type(png, info) == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png);
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  return png_get_rowbytes(png, info);
}

bool read_row(png_structp png, PngBytes& source, std::uint8_t* row) {
  if (setjmp(source.jump) != 0) return false;
  png_read_row(png, row, nullptr);
  return true;
}

// Reads the rest of the pixels' chunks, which their checksums are part of. False: one of those is wrong. As in Pillow
// and torchvision it is no error that chunks behind them are damaged or missing, IEND among them.
bool read_end(png_structp png, PngBytes& source) {
  constexpr png_uint_32 kPixels = 0x49444154;  // IDAT
  if (setjmp(source.jump) != 0)
    return png_get_io_chunk_type(png) != kPixels || (png_get_io_state(png) & PNG_IO_MASK_LOC) == PNG_IO_CHUNK_HDR;
  png_read_end(png, nullptr);
  return true;
}

// Fills an image, grey as equal colours.
class ImageSink : public RowSink {
 public:
  explicit ImageSink(Image& image) : image_(image) {}

  void start(const PlaneLayout& layout, const std::array<PixelRect, 3>&) override {
    image_.resize(layout.width, layout.height);
    planes_ = layout.planes();
  }
  void row(int plane, int y, const std::uint8_t* samples) override {
    for (int c = plane; c < (planes_ == 1 ? 3 : plane + 1); ++c)
      for (int x = 0; x < image_.width(); ++x) image_.row(y)[3 * x + c] = samples[x];
  }

 private:
  Image& image_;
  int planes_ = 3;
};

}  // namespace

struct PngDecoder::Impl {
  PngBytes source;
  png_structp png = nullptr;
  png_infop info = nullptr;
  PngHeader header;
  std::vector<std::uint8_t> row;  // or the whole image when interlaced
  PixelRows pixels;

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { close(); }

  void close() { png_destroy_read_struct(&png, &info, nullptr); }
  tl::unexpected<Error> error() {
    close();
    return failure(Code::kDataLoss, "broken PNG: {}", source.message.data());
  }
  Status read_all_passes(std::size_t row_bytes);
  void deliver(int y, const std::uint8_t* samples, const PixelRect& window, RowSink& sink);
};

// Every pass of an interlaced image changes every row.
Status PngDecoder::Impl::read_all_passes(std::size_t row_bytes) {
  const auto height = static_cast<std::size_t>(header.height);
  row.resize(row_bytes * height + kRowSlack);
  for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; ++pass)
    for (std::size_t y = 0; y < height; ++y)
      if (!read_row(png, source, row.data() + y * row_bytes)) return error();
  return {};
}

void PngDecoder::Impl::deliver(int y, const std::uint8_t* samples, const PixelRect& window, RowSink& sink) {
  if (header.grey) return sink.row(0, y, samples + window.x);
  pixels.push(y, samples + 3 * window.x, sink);
}

PngDecoder::PngDecoder() : impl_(std::make_unique<Impl>()) {}
PngDecoder::PngDecoder(PngDecoder&&) noexcept = default;
PngDecoder& PngDecoder::operator=(PngDecoder&&) noexcept = default;
PngDecoder::~PngDecoder() = default;

Result<PngHeader> PngDecoder::open(std::string_view png, std::int64_t max_pixels) {
  Impl& impl = *impl_;
  impl.close();
  impl.source.rest = png;
  impl.source.message = {};
  impl.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, static_cast<PngFailure*>(&impl.source), on_png_error,
                                    ignore_png_warning);
  if (impl.png != nullptr) impl.info = png_create_info_struct(impl.png);
  if (impl.info == nullptr) return failure(Code::kResourceExhausted, "PNG: no memory for libpng");
  if (!read_info(impl.png, impl.info, impl.source)) return impl.error();
  const std::int64_t width = png_get_image_width(impl.png, impl.info);
  const std::int64_t height = png_get_image_height(impl.png, impl.info);
  if (width * height > max_pixels) {
    impl.close();
    return too_large("PNG", width, height, max_pixels);
  }
  const auto colour = png_get_color_type(impl.png, impl.info);
  impl.header = {static_cast<int>(width), static_cast<int>(height), (colour & PNG_COLOR_MASK_COLOR) == 0,
                 png_get_bit_depth(impl.png, impl.info),
                 png_get_interlace_type(impl.png, impl.info) != PNG_INTERLACE_NONE};
  return impl.header;
}

Status PngDecoder::push(const PixelRect& window, RowSink& sink) {
  Impl& impl = *impl_;
  const PngHeader& header = impl.header;
  if (impl.png == nullptr) return failure(Code::kInvalidArgument, "PNG: push() comes once after a good open()");
  if (window.x < 0 || window.y < 0 || window.width < 1 || window.height < 1 || window.right() > header.width ||
      window.bottom() > header.height) {
    impl.close();
    return failure(Code::kInvalidArgument, "PNG of {} x {} pixels: no window of {} x {} at ({}, {}) in it",
                   header.width, header.height, window.width, window.height, window.x, window.y);
  }
  const std::size_t row_bytes = start_rows(impl.png, impl.info, impl.source);
  if (row_bytes == 0) return impl.error();
  if (header.interlaced) {
    XOE_TRY(impl.read_all_passes(row_bytes));
  } else {
    impl.row.resize(row_bytes + kRowSlack);
  }
  if (header.grey) {
    PlaneLayout layout;
    layout.colour = Colour::kGrey;
    layout.width = header.width;
    layout.height = header.height;
    sink.start(layout, {window, window, window});
  } else {
    impl.pixels.start(header.width, header.height, window, sink);
  }
  // To the end, also behind the window: whether a file is damaged is no matter of what is cut out of it.
  for (int y = 0; y < header.height; ++y) {
    std::uint8_t* row = impl.row.data() + (header.interlaced ? static_cast<std::size_t>(y) * row_bytes : 0);
    if (!header.interlaced && !read_row(impl.png, impl.source, row)) return impl.error();
    if (y >= window.y && y < window.bottom()) impl.deliver(y, row, window, sink);
  }
  if (!read_end(impl.png, impl.source)) return impl.error();
  impl.close();
  return {};
}

Status PngDecoder::decode(std::string_view png, Image& image, std::int64_t max_pixels) {
  XOE_ASSIGN(const PngHeader header, open(png, max_pixels));
  ImageSink sink(image);
  return push({0, 0, header.width, header.height}, sink);
}

namespace {

struct PngEncodeSession : PngFailure {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::string bytes;

  PngEncodeSession() = default;
  PngEncodeSession(const PngEncodeSession&) = delete;
  PngEncodeSession& operator=(const PngEncodeSession&) = delete;
  ~PngEncodeSession() { png_destroy_write_struct(&png, &info); }
};

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
  session.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, static_cast<PngFailure*>(&session), on_png_error,
                                        ignore_png_warning);
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

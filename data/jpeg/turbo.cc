#include <cstddef>
#include <cstdio>

#include <jpeglib.h>

#include <jerror.h>

#include <array>
#include <csetjmp>
#include <cstdlib>
#include <vector>

#include "core/base/error.h"
#include "data/image/planes.h"
#include "data/image/too_large.h"
#include "data/jpeg/jpeg.h"

namespace xoe::data {

// Reached by libjpeg's callbacks through client_data.
struct JpegFailure {
  std::jmp_buf jump = {};
  std::array<char, JMSG_LENGTH_MAX> message = {};
};

namespace {

// Each scan of a progressive file costs a pass over the whole image; ordinary files have about ten.
constexpr int kMaxScans = 100;

JpegFailure& failure_of(j_common_ptr info) { return *static_cast<JpegFailure*>(info->client_data); }

[[noreturn]] void on_jpeg_error(j_common_ptr info) {
  JpegFailure& failed = failure_of(info);
  info->err->format_message(info, failed.message.data());
  std::longjmp(failed.jump, 1);
}

// Warnings after which every pixel is still there.
bool harmless(int warning) {
  return warning == JWRN_EXTRANEOUS_DATA || warning == JWRN_JFIF_MAJOR || warning == JWRN_ADOBE_XFORM ||
         warning == JWRN_BOGUS_ICC;
}

void on_message(j_common_ptr info, int level) {
  if (level < 0 && !harmless(info->err->msg_code)) on_jpeg_error(info);
}

void on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  JpegFailure& failed = failure_of(info);
  *fmt::format_to_n(failed.message.data(), failed.message.size() - 1, "more than {} scans", kMaxScans).out = '\0';
  std::longjmp(failed.jump, 1);
}

// Functions that call setjmp own no object with a destructor, and use no local variable after the jump.

bool create(jpeg_decompress_struct& info, JpegFailure& failed) {
  if (setjmp(failed.jump) != 0) return false;
  jpeg_create_decompress(&info);
  return true;
}

bool read_start(jpeg_decompress_struct& info, JpegFailure& failed, std::string_view jpeg) {
  if (setjmp(failed.jump) != 0) return false;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(jpeg.data()), jpeg.size());
  jpeg_read_header(&info, TRUE);
  const bool four = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  info.out_color_space = four ? JCS_CMYK : JCS_RGB;
  return true;
}

// Adobe's programs, which write nearly all such files, store the inks inverted.
void inks_to_rgb(const std::uint8_t* inks, std::uint8_t* rgb, int width, bool inverted) {
  const unsigned flip = inverted ? 0 : 255;
  for (int x = 0; x < width; ++x, inks += 4, rgb += 3) {
    const unsigned white = inks[3] ^ flip;
    for (int c = 0; c < 3; ++c) rgb[c] = static_cast<std::uint8_t>(((inks[c] ^ flip) * white + 127) / 255);
  }
}

bool read_rows(jpeg_decompress_struct& info, JpegFailure& failed, Image& image, std::uint8_t* inks) {
  if (setjmp(failed.jump) != 0) return false;
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    const int y = static_cast<int>(info.output_scanline);
    std::uint8_t* row = inks != nullptr ? inks : image.row(y);
    jpeg_read_scanlines(&info, &row, 1);
    if (inks != nullptr) inks_to_rgb(inks, image.row(y), image.width(), info.saw_Adobe_marker != FALSE);
  }
  jpeg_finish_decompress(&info);
  return true;
}

bool has_planes(const jpeg_decompress_struct& info) {
  if (info.jpeg_color_space != JCS_YCbCr || info.num_components != 3) return false;
  const jpeg_component_info* c = info.comp_info;
  for (int i = 1; i < 3; ++i)
    if (c[i].h_samp_factor != 1 || c[i].v_samp_factor != 1) return false;
  return c[0].h_samp_factor <= 2 && c[0].v_samp_factor <= 2;
}

bool read_planes(jpeg_decompress_struct& info, JpegFailure& failed, JpegPlanes& planes) {
  if (setjmp(failed.jump) != 0) return false;
  info.raw_data_out = TRUE;
  jpeg_start_decompress(&info);
  const int luma_rows = 8 * info.comp_info[0].v_samp_factor;
  while (info.output_scanline < info.output_height) {
    JSAMPROW rows[3][16];
    JSAMPARRAY arrays[3] = {rows[0], rows[1], rows[2]};
    const int mcu_row = static_cast<int>(info.output_scanline) / luma_rows;
    for (int p = 0; p < 3; ++p) {
      const int count = 8 * info.comp_info[p].v_samp_factor;
      for (int y = 0; y < count; ++y) rows[p][y] = planes.row(static_cast<std::size_t>(p), mcu_row * count + y);
    }
    jpeg_read_raw_data(&info, arrays, static_cast<JDIMENSION>(luma_rows));
  }
  jpeg_finish_decompress(&info);
  return true;
}

}  // namespace

struct JpegDecoder::Impl {
  jpeg_decompress_struct info = {};
  jpeg_error_mgr errors = {};
  jpeg_progress_mgr progress = {};
  JpegFailure failed;
  std::vector<std::uint8_t> inks;

  Impl() {
    info.err = jpeg_std_error(&errors);
    errors.error_exit = on_jpeg_error;
    errors.emit_message = on_message;
    info.client_data = &failed;
    progress.progress_monitor = on_progress;
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { jpeg_destroy_decompress(&info); }

  // Created again for each image: tables of the previous image would serve an image that lacks its own.
  bool renew() {
    jpeg_destroy_decompress(&info);
    if (!create(info, failed)) return false;
    info.progress = &progress;
    return true;
  }

  tl::unexpected<Error> error() {
    jpeg_abort_decompress(&info);
    return failure(Code::kDataLoss, "broken JPEG: {}", failed.message.data());
  }
};

JpegDecoder::JpegDecoder() : impl_(std::make_unique<Impl>()) {}
JpegDecoder::JpegDecoder(JpegDecoder&&) noexcept = default;
JpegDecoder& JpegDecoder::operator=(JpegDecoder&&) noexcept = default;
JpegDecoder::~JpegDecoder() = default;

Status JpegDecoder::start(std::string_view jpeg, std::int64_t max_pixels) {
  Impl& impl = *impl_;
  jpeg_decompress_struct& info = impl.info;
  if (!impl.renew()) return failure(Code::kResourceExhausted, "JPEG: {}", impl.failed.message.data());
  if (!read_start(info, impl.failed, jpeg)) return impl.error();
  const std::int64_t pixels = std::int64_t{info.image_width} * info.image_height;
  if (pixels <= max_pixels) return {};
  jpeg_abort_decompress(&info);
  return too_large("JPEG", info.image_width, info.image_height, max_pixels);
}

Status JpegDecoder::decode(std::string_view jpeg, Image& image, std::int64_t max_pixels) {
  XOE_TRY(start(jpeg, max_pixels));
  Impl& impl = *impl_;
  jpeg_decompress_struct& info = impl.info;
  image.resize(static_cast<int>(info.image_width), static_cast<int>(info.image_height));
  const bool four = info.out_color_space == JCS_CMYK;
  if (four) impl.inks.resize(std::size_t{4} * info.image_width);
  if (!read_rows(info, impl.failed, image, four ? impl.inks.data() : nullptr)) return impl.error();
  return {};
}

Result<JpegHeader> JpegDecoder::read_header(std::string_view jpeg, std::int64_t max_pixels) {
  XOE_TRY(start(jpeg, max_pixels));
  jpeg_decompress_struct& info = impl_->info;
  JpegHeader header{static_cast<int>(info.image_width), static_cast<int>(info.image_height),
                    info.jpeg_color_space == JCS_GRAYSCALE};
  if (header.grey) {
    header.across = header.down = 1;
  } else if (has_planes(info)) {
    header.across = info.comp_info[0].h_samp_factor;
    header.down = info.comp_info[0].v_samp_factor;
  }
  jpeg_abort_decompress(&info);
  return header;
}

Status JpegDecoder::decode_planes(std::string_view jpeg, JpegPlanes& planes, std::int64_t max_pixels) {
  XOE_TRY(start(jpeg, max_pixels));
  Impl& impl = *impl_;
  jpeg_decompress_struct& info = impl.info;
  if (!has_planes(info)) {
    jpeg_abort_decompress(&info);
    return failure(Code::kInvalidArgument, "JPEG of {} x {} pixels is not stored as luma and chroma", info.image_width,
                   info.image_height);
  }
  const auto blocks = [](unsigned pixels, int factor) {
    const std::size_t side = std::size_t{8} * static_cast<std::size_t>(factor);
    return (pixels + side - 1) / side;  // MCUs
  };
  const jpeg_component_info* luma = info.comp_info;
  const std::size_t columns = blocks(info.image_width, luma->h_samp_factor);
  const std::size_t rows = blocks(info.image_height, luma->v_samp_factor);
  for (std::size_t p = 0; p < 3; ++p)
    planes.resize(p, columns * 8 * static_cast<std::size_t>(luma[p].h_samp_factor),
                  rows * 8 * static_cast<std::size_t>(luma[p].v_samp_factor));
  if (!read_planes(info, impl.failed, planes)) return impl.error();
  return {};
}

void JpegPlanes::resize(std::size_t plane, std::size_t stride, std::size_t rows) {
  stride_[plane] = stride;
  samples_[plane].resize(stride * rows + kRowSlack);
}

namespace {

struct JpegEncodeSession {
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors = {};
  JpegFailure failed;
  unsigned char* bytes = nullptr;
  unsigned long size = 0;

  JpegEncodeSession() = default;
  JpegEncodeSession(const JpegEncodeSession&) = delete;
  JpegEncodeSession& operator=(const JpegEncodeSession&) = delete;
  ~JpegEncodeSession() {
    jpeg_destroy_compress(&info);
    std::free(bytes);
  }
};

// Owns no object with a destructor, because libjpeg leaves it by a jump.
bool write_jpeg(JpegEncodeSession& session, const Image& image, JpegEncoding encoding, std::uint8_t* grey_row) {
  if (setjmp(session.failed.jump) != 0) return false;
  jpeg_compress_struct& info = session.info;
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &session.bytes, &session.size);
  info.image_width = static_cast<JDIMENSION>(image.width());
  info.image_height = static_cast<JDIMENSION>(image.height());
  info.input_components = encoding.grey ? 1 : 3;
  info.in_color_space = encoding.grey ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, encoding.quality, TRUE);
  if (encoding.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    const std::uint8_t* pixels = image.row(static_cast<int>(info.next_scanline));
    if (encoding.grey)
      for (int x = 0; x < image.width(); ++x)
        grey_row[x] =
            static_cast<std::uint8_t>((77 * pixels[3 * x] + 150 * pixels[3 * x + 1] + 29 * pixels[3 * x + 2]) / 256);
    auto* row = encoding.grey ? grey_row : const_cast<std::uint8_t*>(pixels);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  return true;
}

}  // namespace

Result<std::string> encode_jpeg(const Image& image, JpegEncoding encoding) {
  JpegEncodeSession session;
  session.info.err = jpeg_std_error(&session.errors);
  session.errors.error_exit = on_jpeg_error;
  session.info.client_data = &session.failed;
  std::vector<std::uint8_t> grey_row(encoding.grey ? static_cast<std::size_t>(image.width()) : 0);
  if (!write_jpeg(session, image, encoding, grey_row.data()))
    return failure(Code::kInvalidArgument, "JPEG: {}", session.failed.message.data());
  return std::string(reinterpret_cast<const char*>(session.bytes), session.size);
}

}  // namespace xoe::data

#include <cstddef>
#include <cstdio>

#include <jpeglib.h>

#include <array>
#include <csetjmp>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "data/jpeg/jpeg.h"

namespace xoe::data {
namespace {

struct JpegEncodeSession {
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors = {};
  std::jmp_buf jump = {};
  std::array<char, JMSG_LENGTH_MAX> message = {};
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

[[noreturn]] void on_encode_error(j_common_ptr info) {
  auto& session = *static_cast<JpegEncodeSession*>(info->client_data);
  info->err->format_message(info, session.message.data());
  std::longjmp(session.jump, 1);
}

// Owns no object with a destructor, because libjpeg leaves it by a jump.
bool write_jpeg(JpegEncodeSession& session, const Image& image, JpegEncoding encoding, std::uint8_t* grey_row) {
  if (setjmp(session.jump) != 0) return false;
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
  session.errors.error_exit = on_encode_error;
  session.info.client_data = &session;
  std::vector<std::uint8_t> grey_row(encoding.grey ? static_cast<std::size_t>(image.width()) : 0);
  if (!write_jpeg(session, image, encoding, grey_row.data()))
    return failure(Code::kInvalidArgument, "JPEG: {}", session.message.data());
  return std::string(reinterpret_cast<const char*>(session.bytes), session.size);
}

}  // namespace xoe::data

// JPEG to RGB and back, by libjpeg-turbo.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "data/image.h"
#include "xoe/status.h"

namespace xoe::data {

inline constexpr std::int64_t kMaxPixels = std::int64_t{1} << 26;  // 192 MiB of RGB

// Decodes baseline and progressive JPEGs of any colour space that libjpeg-turbo knows. Keeps its memory between images.
// One thread at a time.
class JpegDecoder {
 public:
  JpegDecoder();
  JpegDecoder(JpegDecoder&&) noexcept;
  JpegDecoder& operator=(JpegDecoder&&) noexcept;
  ~JpegDecoder();

  // `data_loss`: broken or cut short, also where libjpeg would fill in grey and go on; `resource_exhausted`: more than
  // `max_pixels`. On an error the image holds anything.
  Status decode(std::string_view jpeg, Image& image, std::int64_t max_pixels = kMaxPixels);

 private:
  struct Session;
  std::unique_ptr<Session> session_;
};

struct JpegEncoding {
  int quality = 90;
  bool grey = false;
  bool progressive = false;
};
// Chroma is halved in both directions (4:2:0).
Result<std::string> encode_jpeg(const Image& image, JpegEncoding encoding = {});

}  // namespace xoe::data

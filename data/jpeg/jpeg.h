// JPEG to RGB and back, with libjpeg-turbo.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/image/image.h"
#include "xoe/status.h"

namespace xoe::data {

inline constexpr std::int64_t kMaxPixels = std::int64_t{1} << 26;  // 192 MiB of RGB

struct JpegHeader {
  int width = 0;
  int height = 0;
  bool grey = false;
  // Pixels per chroma sample, 1 or 2; 0 where the image is not stored as luma and chroma with such factors.
  int across = 0;
  int down = 0;
};

// Planes of Y, Cb and Cr as stored.
class JpegPlanes {
 public:
  const std::uint8_t* row(std::size_t plane, int y) const noexcept {
    return samples_[plane].data() + stride_[plane] * static_cast<std::size_t>(y);
  }
  std::uint8_t* row(std::size_t plane, int y) noexcept {
    return samples_[plane].data() + stride_[plane] * static_cast<std::size_t>(y);
  }
  // With room to read kRowSlack bytes behind the last row.
  void resize(std::size_t plane, std::size_t stride, std::size_t rows);

 private:
  std::array<std::vector<std::uint8_t>, 3> samples_;
  std::array<std::size_t, 3> stride_ = {};
};

// Decodes baseline and progressive JPEGs of any colour space that libjpeg-turbo knows. Keeps its memory between images.
// One thread at a time.
class JpegDecoder {
 public:
  JpegDecoder();
  JpegDecoder(JpegDecoder&&) noexcept;
  JpegDecoder& operator=(JpegDecoder&&) noexcept;
  ~JpegDecoder();

  // `data_loss`: broken or truncated, also where libjpeg would fill in grey and continue; `resource_exhausted`: more
  // than `max_pixels`. After an error the content of the image is undefined.
  Status decode(std::string_view jpeg, Image& image, std::int64_t max_pixels = kMaxPixels);

  // The same errors, as far as the headers show them.
  Result<JpegHeader> read_header(std::string_view jpeg, std::int64_t max_pixels = kMaxPixels);
  // REQUIRES: read_header() finds `down` above 0, and the image is not grey.
  Status decode_planes(std::string_view jpeg, JpegPlanes& planes, std::int64_t max_pixels = kMaxPixels);

 private:
  struct Impl;
  Status start(std::string_view jpeg, std::int64_t max_pixels);
  std::unique_ptr<Impl> impl_;
};

struct JpegEncoding {
  int quality = 90;
  bool grey = false;
  bool progressive = false;
};
// Chroma is halved in both directions (4:2:0).
Result<std::string> encode_jpeg(const Image& image, JpegEncoding encoding = {});

}  // namespace xoe::data

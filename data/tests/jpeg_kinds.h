// JPEGs of all kinds for tests, and what a reader pushes.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <jpeglib.h>

#include "data/image/image.h"
#include "data/image/planes.h"
#include "data/stages/random.h"

namespace xoe::data {

struct JpegKind {
  int quality = 90;
  int across = 2;  // luma's sampling factors
  int down = 2;
  bool grey = false;
  bool progressive = false;
  bool optimised = false;
  int restart = 0;             // MCUs
  bool stored_as_rgb = false;  // without conversion
  bool separate_scans = false;
};

inline std::string write_jpeg(const Image& image, const JpegKind& kind) {
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(image.width());
  info.image_height = static_cast<JDIMENSION>(image.height());
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  if (kind.grey) jpeg_set_colorspace(&info, JCS_GRAYSCALE);
  if (kind.stored_as_rgb) jpeg_set_colorspace(&info, JCS_RGB);
  jpeg_set_quality(&info, kind.quality, TRUE);
  info.comp_info[0].h_samp_factor = kind.across;
  info.comp_info[0].v_samp_factor = kind.down;
  info.optimize_coding = kind.optimised ? TRUE : FALSE;
  info.restart_interval = static_cast<unsigned>(kind.restart);
  if (kind.progressive) jpeg_simple_progression(&info);
  const jpeg_scan_info scans[3] = {{1, {0}, 0, 63, 0, 0}, {1, {1}, 0, 63, 0, 0}, {1, {2}, 0, 63, 0, 0}};
  if (kind.separate_scans) {
    info.scan_info = scans;
    info.num_scans = 3;
  }
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<std::uint8_t*>(image.row(static_cast<int>(info.next_scanline)));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string jpeg(reinterpret_cast<char*>(bytes), size);
  std::free(bytes);
  return jpeg;
}

// Waves with grain: `grain` 0 is smooth, 255 is noise.
inline Image wavy_image(int width, int height, int grain, std::uint64_t seed) {
  Random random(seed);
  Image image;
  image.resize(width, height);
  const double fx = 0.02 + 0.01 * random.integer(0, 30);
  const double fy = 0.02 + 0.01 * random.integer(0, 30);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c) {
        const double wave = 128 + 110 * std::sin(fx * x + 2 * c) * std::cos(fy * y - c);
        const int value = static_cast<int>(wave) + random.integer(-grain, grain);
        image.row(y)[3 * x + c] = static_cast<std::uint8_t>(std::clamp(value, 0, 255));
      }
  return image;
}

// Keeps what it is given and checks that it comes as promised.
class KeepingSink : public RowSink {
 public:
  void start(const PlaneLayout& l, const std::array<PixelRect, 3>& w) override {
    ++starts;
    layout = l;
    window = w;
    for (std::size_t p = 0; p < 3; ++p) {
      rows[p].clear();
      next[p] = w[p].y;
    }
  }
  void row(int plane, int y, const std::uint8_t* samples) override {
    const auto p = static_cast<std::size_t>(plane);
    ASSERT_EQ(y, next[p]++);
    rows[p].emplace_back(samples, samples + window[p].width);
    unsigned sum = 0;
    for (std::size_t i = 0; i < kRowSlack; ++i) sum += samples[static_cast<std::size_t>(window[p].width) + i];
    slack = slack + sum;
  }
  bool complete() const {
    for (std::size_t p = 0; p < static_cast<std::size_t>(layout.planes()); ++p)
      if (next[p] != window[p].bottom()) return false;
    return starts == 1;
  }

  int starts = 0;
  PlaneLayout layout;
  std::array<PixelRect, 3> window;
  std::array<std::vector<std::vector<std::uint8_t>>, 3> rows;
  std::array<int, 3> next = {};
  volatile unsigned slack = 0;
};

inline PixelRect random_window(int width, int height, Random& random) {
  PixelRect window;
  window.x = random.integer(0, width - 1);
  window.y = random.integer(0, height - 1);
  window.width = random.integer(1, width - window.x);
  window.height = random.integer(1, height - window.y);
  return window;
}

}  // namespace xoe::data

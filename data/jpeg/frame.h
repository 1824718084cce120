// The headers of the JPEGs that Xoe's own decoder takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace xoe::data::jpeg {

struct FrameComponent {
  int id = 0;
  int across = 1;  // sampling factors: blocks in an MCU
  int down = 1;
  int quantiser = 0;
  int dc_code = 0;
  int ac_code = 0;
};

// A Huffman table within the JPEG: 16 counts of codes by length, then the symbols.
using CodeBytes = std::string_view;

struct Frame {
  int width = 0;
  int height = 0;
  int components = 0;  // 1: grey, 3: Y, Cb, Cr
  std::array<FrameComponent, 3> component;
  std::array<std::array<std::uint16_t, 64>, 4> quantiser;  // natural order
  std::array<CodeBytes, 4> dc_code;
  std::array<CodeBytes, 4> ac_code;
  int restart_interval = 0;  // MCUs; 0: none
  std::size_t scan_at = 0;   // offset of the first entropy-coded byte

  int across() const noexcept { return component[0].across; }
  int down() const noexcept { return component[0].down; }
  // In MCUs.
  int columns() const noexcept { return (width + 8 * across() - 1) / (8 * across()); }
  int rows() const noexcept { return (height + 8 * down() - 1) / (8 * down()); }
};

// Accepts 8-bit baseline and extended sequential Huffman JPEGs, grey or YCbCr 4:4:4, 4:2:2, 4:4:0, 4:2:0, all
// components in one scan. False for anything broken, unusual or doubtful, which is left to libjpeg-turbo.
bool read_frame(std::string_view jpeg, Frame& frame);

// Position k of the coded order is position kNaturalOrder[k] of a block of eight rows.
inline constexpr std::array<std::uint8_t, 64> kNaturalOrder = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

}  // namespace xoe::data::jpeg

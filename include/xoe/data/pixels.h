// How delivered images are made and how they lie in memory.
#pragma once

#include <cstdint>

namespace xoe::data {

enum class Layout : std::uint8_t {
  kNchw,  // channel by channel
  kNhwc,  // pixel by pixel
};

enum class Quality : std::uint8_t {
  // What decoding the whole image, cropping it, and bilinear interpolation give, within one grey level, borders of the
  // crop included.
  kExact,
  // JPEG's planes are resized before their colours are converted: somewhat faster, mean difference below half a grey
  // level, more at saturated edges (docs/guide/data.md has the figures).
  kFast,
};

}  // namespace xoe::data

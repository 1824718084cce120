// From rows of luma and chroma samples to rows of red, green and blue.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace xoe::data::jpeg {

// The subsampling of chroma.
enum class Sampling : std::uint8_t {
  kFull,        // 4:4:4
  kHalfAcross,  // 4:2:2
  kHalfDown,    // 4:4:0
  kQuarter,     // 4:2:0
};

// The sources of a row of pixels. Pointers are at the first pixel, which has an even x, and at its chroma sample.
struct SampleRows {
  const std::uint8_t* luma = nullptr;
  std::array<const std::uint8_t*, 2> near = {};  // Cb, Cr: the chroma row that lies over the pixels
  std::array<const std::uint8_t*, 2> far = {};   // the next nearest row; only for vertically subsampled chroma
  bool far_is_below = false;
};

// Writes `width` pixels as libjpeg-turbo does: subsampled chroma is interpolated with weights 3/4 and 1/4 ("fancy
// upsampling"), then converted in 16-bit fixed point. Reads one chroma sample more on each side of the pixels; may read
// 64 bytes behind each row, and write 64 bytes behind the pixels.
void convert_row(Sampling sampling, const SampleRows& rows, std::size_t width, const std::array<std::uint8_t*, 3>& rgb);

}  // namespace xoe::data::jpeg

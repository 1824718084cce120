// From rows of luma and chroma samples to rows of red, green and blue.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace xoe::data::jpeg {

// How chroma is sampled.
enum class Sampling : std::uint8_t {
  kFull,        // 4:4:4
  kHalfAcross,  // 4:2:2
  kHalfDown,    // 4:4:0
  kQuarter,     // 4:2:0
};

// What a row of pixels is made of. Pointers stand at the first pixel, which has an even x, and at its chroma sample.
struct SampleRows {
  const std::uint8_t* luma = nullptr;
  std::array<const std::uint8_t*, 2> near = {};  // Cb, Cr: the chroma row that lies over the pixels
  std::array<const std::uint8_t*, 2> far = {};   // the next nearest; only used when chroma is halved downwards
  bool far_is_below = false;
};

// Writes `width` pixels as libjpeg-turbo does: chroma that is halved is smoothed out with weights 3/4 and 1/4 ("fancy
// upsampling"), then converted in fixed point of 16 bits. Reads the chroma samples before the first and behind the last
// that the pixels lie over; beyond that 64 bytes of each row may be read and as many behind the pixels written.
void convert_row(Sampling sampling, const SampleRows& rows, std::size_t width, const std::array<std::uint8_t*, 3>& rgb);

}  // namespace xoe::data::jpeg

// The inverse DCT: from coefficients to samples.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace xoe::data::jpeg {

// The coefficients of neighbouring blocks are interleaved, so that one vector holds the same row of all of them: the
// first rows of four blocks, their second rows, and so on.
inline constexpr std::size_t kBlocksAtOnce = 4;

// The start of block `i` of a sequence, and from there the offset of coefficient `natural`, counted row by row.
constexpr std::size_t block_start(std::size_t i) noexcept {
  return i / kBlocksAtOnce * kBlocksAtOnce * 64 + i % kBlocksAtOnce * 8;
}
constexpr std::size_t offset_in_block(std::size_t natural) noexcept {
  return natural / 8 * kBlocksAtOnce * 8 + natural % 8;
}

// Multiplies the coefficients by `steps`, makes 8 x 8 samples of each block by the inverse DCT that libjpeg calls
// "islow" (Loeffler, Ligtenberg, Moschytz 1989, constants of 13 bits) and writes them side by side into eight rows
// `stride` apart. Sets the coefficients to zero. The results are libjpeg-turbo's to the bit for any coefficients: its
// kernels for x86-64 calculate with 16-bit numbers in the same order.
// REQUIRES: a DC times its step is within [-8192, 8191]; memory on both sides for a multiple of kBlocksAtOnce blocks.
void transform_blocks(std::int16_t* coefficients, std::size_t blocks, const std::array<std::uint16_t, 64>& steps,
                      std::uint8_t* samples, std::size_t stride);

}  // namespace xoe::data::jpeg

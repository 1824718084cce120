// From coefficients to samples.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace xoe::data::jpeg {

// Coefficients of neighbouring blocks are kept interleaved, so that one vector takes the same row of all of them: four
// times the first row, four times the second, and so on.
inline constexpr std::size_t kBlocksAtOnce = 4;

// Where block `i` of a sequence starts, and where its coefficient at place `natural` (row by row) is from there.
constexpr std::size_t block_start(std::size_t i) noexcept {
  return i / kBlocksAtOnce * kBlocksAtOnce * 64 + i % kBlocksAtOnce * 8;
}
constexpr std::size_t place_in_block(std::size_t natural) noexcept {
  return natural / 8 * kBlocksAtOnce * 8 + natural % 8;
}

// Multiplies the coefficients by `steps`, makes 8 x 8 samples of each block by the inverse DCT that libjpeg calls
// "islow" (Loeffler, Ligtenberg, Moschytz 1989, constants of 13 bits) and writes them side by side into eight rows
// `stride` apart. Leaves zeros in place of the coefficients. The results are libjpeg-turbo's to the bit, whatever the
// coefficients: its kernels for x86-64 calculate with 16-bit numbers in the same order.
// REQUIRES: a DC times its step is within [-8192, 8191]; memory on both sides for a multiple of kBlocksAtOnce blocks.
void transform_blocks(std::int16_t* coefficients, std::size_t blocks, const std::array<std::uint16_t, 64>& steps,
                      std::uint8_t* samples, std::size_t stride);

}  // namespace xoe::data::jpeg

// Decodes Huffman-coded bits to coefficients.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "data/jpeg/huffman.h"

namespace xoe::data::jpeg {

inline constexpr int kMaxBlocks = 6;  // of an MCU

// The state of the decoder between two MCUs.
struct EntropyState {
  std::uint64_t bit = 0;  // the next one of the unstuffed bytes
  std::array<std::int32_t, 3> dc = {};
};

// The blocks of an MCU in their order.
struct McuPlan {
  struct Block {
    const DcTable* dc = nullptr;
    const AcTable* ac = nullptr;
    std::size_t component = 0;
    std::int32_t dc_step = 0;              // of the quantiser, to detect values that no encoder writes
    std::int16_t* coefficients = nullptr;  // of a row of blocks, as idct.h wants them
    std::size_t first = 0;                 // the index of this block in the first MCU
    std::size_t step = 0;                  // from MCU to MCU
  };
  std::array<Block, kMaxBlocks> block;
  std::size_t blocks = 0;
};

// Reads `mcus` MCUs, which end at `end_bit` or before. With `first_mcu` >= 0 writes their coefficients, not yet
// multiplied by the quantiser's steps, into blocks of zeros, MCU `first_mcu` first; else leaves the blocks alone. False
// for bits that no sound encoder writes; then state and blocks are undefined. REQUIRES: ScanBytes::kSlack readable
// bytes behind end_bit.
bool decode_mcus(const std::uint8_t* bytes, std::uint64_t end_bit, const McuPlan& plan, std::ptrdiff_t first_mcu,
                 std::size_t mcus, EntropyState& state);

}  // namespace xoe::data::jpeg

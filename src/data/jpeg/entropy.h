// From Huffman-coded bits to coefficients.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "data/jpeg/huffman.h"

namespace xoe::data::jpeg {

inline constexpr int kMaxBlocks = 6;  // of an MCU

// All that decoding needs to go on from between two MCUs.
struct EntropyState {
  std::uint64_t bit = 0;  // of the unstuffed bytes, the next one
  std::array<std::int32_t, 3> dc = {};
};

// The blocks of an MCU in their order.
struct McuPlan {
  struct Block {
    const DcTable* dc = nullptr;
    const AcTable* ac = nullptr;
    std::size_t component = 0;
    std::int32_t dc_step = 0;              // the quantiser's, to see values that no encoder makes
    std::int16_t* coefficients = nullptr;  // of a row of blocks, as idct.h wants them
    std::size_t first = 0;                 // which of them it is in the first MCU
    std::size_t step = 0;                  // from MCU to MCU
  };
  std::array<Block, kMaxBlocks> block;
  std::size_t blocks = 0;
};

// Reads `mcus` MCUs, which end at `end_bit` or before. With `first_mcu` >= 0 adds their coefficients, not yet
// multiplied by the quantiser's steps, to blocks of zeros, counting MCUs from it; otherwise leaves the blocks alone.
// False, with anything in the state and the blocks, for bits that a sound encoder does not write. REQUIRES:
// ScanBytes::kSlack bytes can be read behind end_bit.
bool decode_mcus(const std::uint8_t* bytes, std::uint64_t end_bit, const McuPlan& plan, std::ptrdiff_t first_mcu,
                 std::size_t mcus, EntropyState& state);

}  // namespace xoe::data::jpeg

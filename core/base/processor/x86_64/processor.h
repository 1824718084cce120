// What the code needs of an x86-64 processor beside the language. The build picks the folder of the processor.
#pragma once

#include <xmmintrin.h>

#include <cstdint>

namespace xoe {

// In a loop that waits for another thread.
inline void pause_processor() noexcept { __builtin_ia32_pause(); }

// How this thread rounds, and whether it keeps subnormals: MXCSR.
struct FloatModes {
  using State = std::uint32_t;
  // Those of `kAll` are zero while a thread rounds to nearest even and keeps subnormals.
  static constexpr State kFlushToZero = 0x8040;  // results, operands
  static constexpr State kRoundTowardZero = 0x6000;
  static constexpr State kAll = kFlushToZero | kRoundTowardZero;

  static State read() noexcept { return _mm_getcsr(); }
  static void write(State state) noexcept { _mm_setcsr(state); }
};

}  // namespace xoe

// What the code needs of an ARM64 processor beside the language. The build picks the folder of the processor.
#pragma once

#include <cstdint>

namespace xoe {

// In a loop that waits for another thread.
inline void pause_processor() noexcept { asm volatile("yield"); }

// How this thread rounds, and whether it keeps subnormals: FPCR.
struct FloatModes {
  using State = std::uint64_t;
  // Those of `kAll` are zero while a thread rounds to nearest even and keeps subnormals.
  static constexpr State kFlushToZero = 1U << 24 | 1U << 19;  // FZ, and FZ16 for half precision
  static constexpr State kRoundTowardZero = 3U << 22;
  static constexpr State kAlternate = 7U << 0;  // FIZ, AH, NEP, where the processor has them
  static constexpr State kAll = kFlushToZero | kRoundTowardZero | kAlternate;

  static State read() noexcept {
    State state = 0;
    asm volatile("mrs %0, fpcr" : "=r"(state));
    return state;
  }
  static void write(State state) noexcept { asm volatile("msr fpcr, %0" : : "r"(state)); }
};

}  // namespace xoe

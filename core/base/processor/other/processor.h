// What the code needs of a processor beside the language, for those that have no folder of their own.
#pragma once

#include <cstdint>

namespace xoe {

// In a loop that waits for another thread.
inline void pause_processor() noexcept {}

// How this thread rounds, and whether it keeps subnormals: not known.
struct FloatModes {
  using State = std::uint32_t;
  static constexpr State kFlushToZero = 0;
  static constexpr State kRoundTowardZero = 0;
  static constexpr State kAll = 0;

  static State read() noexcept { return 0; }
  static void write(State /*state*/) noexcept {}
};

}  // namespace xoe

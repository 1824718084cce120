// The time as files of runs have it.
#pragma once

#include <chrono>
#include <cstdint>

namespace xoe::train {

// Milliseconds since 1970.
inline std::int64_t now_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

}  // namespace xoe::train

// Pauses in a loop that waits for another thread or process.
#pragma once

#include <sched.h>

namespace xoe {

// yields: lets another thread run, for when there are more threads than CPUs; otherwise executes a pause instruction.
inline void relax(bool yields) noexcept {
  if (yields) {
    ::sched_yield();
    return;
  }
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace xoe

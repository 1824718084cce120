// A turn of a loop that waits for another thread or process.
#pragma once

#include <sched.h>

namespace xoe {

// yields: there are more of them than processors, so let another one run; otherwise the processor only takes breath.
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

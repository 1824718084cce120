// Pauses in a loop that waits for another thread or process.
#pragma once

#include <sched.h>

#include "processor.h"

namespace xoe {

// yields: lets another thread run, for when there are more threads than CPUs; otherwise executes a pause instruction.
inline void relax(bool yields) noexcept {
  if (yields)
    ::sched_yield();
  else
    pause_processor();
}

}  // namespace xoe

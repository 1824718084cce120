// What a program frees stays with it, for its next allocation.
#pragma once

#include "core/base/env.h"
#include "xoe/status.h"

namespace xoe {

// Tells glibc to keep freed memory. Each step of a training frees and allocates the same large tensors; by default
// glibc returns them to the kernel, which then clears every page again: a fifth of a step of resnet50 at batch 4. The
// process stays as large as it once was. False, and nothing is changed: XOE_KEEP_FREED_MEMORY is 0, or the user has set
// these thresholds of glibc's (MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_ or the same in GLIBC_TUNABLES). For the
// whole process, at any time, best before it allocates much. `invalid_argument`: the variable is malformed.
Result<bool> keep_freed_memory(const Env& env);

}  // namespace xoe

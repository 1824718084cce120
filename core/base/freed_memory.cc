#include "core/base/freed_memory.h"

#include <malloc.h>

#include <limits>

#include "core/base/error.h"

namespace xoe {
namespace {

bool user_has_chosen(const Env& env) {
  const std::string tunables = env.text("GLIBC_TUNABLES").value_or("");
  return env.has("MALLOC_TRIM_THRESHOLD_") || env.has("MALLOC_MMAP_THRESHOLD_") ||
         tunables.find("glibc.malloc.trim_threshold") != std::string::npos ||
         tunables.find("glibc.malloc.mmap_threshold") != std::string::npos;
}

}  // namespace

Result<bool> keep_freed_memory(const Env& env) {
  XOE_ASSIGN(const auto wanted, env.integer("XOE_KEEP_FREED_MEMORY", 0, 1));
  if (wanted == 0 || user_has_chosen(env)) return false;
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the largest that glibc takes
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  return true;
}

}  // namespace xoe

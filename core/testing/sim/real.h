// The functions of the C library behind those of the simulator.
#pragma once

#include <dlfcn.h>

namespace xoe::sim {

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace xoe::sim

// The function behind the one of this name, as real_NAME.
#define REAL(name) static auto* const real_##name = xoe::sim::real<decltype(::name)>(#name)

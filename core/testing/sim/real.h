// The functions of the C library behind those of the simulator.
#pragma once

#include <dlfcn.h>

namespace xoe::sim {

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace xoe::sim

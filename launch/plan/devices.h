// The GPUs that programs on this machine see.
#pragma once

#include <string>
#include <vector>

#include "core/base/env.h"

namespace xoe::launch {

// As CUDA_VISIBLE_DEVICES has them (none where it is empty), or else numbers, one for each of NVIDIA's devices in /dev.
std::vector<std::string> visible_devices(const Env& env);

}  // namespace xoe::launch

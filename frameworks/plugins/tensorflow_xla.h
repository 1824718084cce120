// Custom calls for programs that TensorFlow's XLA compiles: it cannot compile the operations of tensorflow.cc.
#pragma once

#include "frameworks/plugins/engine_access.h"
#include "frameworks/plugins/observer.h"

namespace xoe::plugins {

// Registers xoe_tensorflow_collective and xoe_tensorflow_first_step for CPUs and CUDA, once. Returns why it cannot; ""
// means success. `library`: the path of TensorFlow's own, which is loaded. Not thread safe.
const char* register_xla_calls(const EngineAccess* access, const char* library);

// Compiled programs and others share it: Python numbers the calls of both together.
Observer& first_steps();

}  // namespace xoe::plugins

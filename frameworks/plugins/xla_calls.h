// Collectives as custom calls of XLA: one runs an operation of the engine and waits for it; all that it is told is in
// its attributes. What the plug-ins for JAX and TensorFlow register with the XLA of each.
#pragma once

#include "frameworks/plugins/engine_access.h"
#include "frameworks/plugins/observer.h"
#include "frameworks/plugins/xla_ffi.h"

namespace xoe::plugins {

// The arguments after the first `count` give calls an order: the last results are copies of them, in host memory. Any
// thread may call these; null means success.
xla::Error* run_collective(const xla::CallFrame& frame, const EngineAccess* access);
xla::Error* run_collective_on_gpu(const xla::CallFrame& frame, const EngineAccess* access);

// Shows the arguments of the call with the attribute `number` to Python.
xla::Error* show_first_step(const xla::CallFrame& frame, Observer& observer, bool gpu);

}  // namespace xoe::plugins

// libxoe_jax.so: the custom calls that xoe.jax registers with JAX's XLA, and Python's way to them.
#include "frameworks/plugins/xla_calls.h"

namespace xoe::plugins {
namespace {

const EngineAccess* the_access = nullptr;
Observer the_observer;

}  // namespace
}  // namespace xoe::plugins

// For ctypes.
extern "C" XOE_API void xoe_jax_connect(const xoe::plugins::EngineAccess* access) { xoe::plugins::the_access = access; }

extern "C" XOE_API void xoe_jax_observe(xoe::plugins::Observer::Look look) { xoe::plugins::the_observer.connect(look); }

extern "C" XOE_API void xoe_jax_begin_again() { xoe::plugins::the_observer.begin_again(); }

extern "C" XOE_API xoe::plugins::xla::Error* xoe_jax_first_step_cpu(xoe::plugins::xla::CallFrame* frame) {
  return xoe::plugins::show_first_step(*frame, xoe::plugins::the_observer, false);
}

extern "C" XOE_API xoe::plugins::xla::Error* xoe_jax_first_step_cuda(xoe::plugins::xla::CallFrame* frame) {
  return xoe::plugins::show_first_step(*frame, xoe::plugins::the_observer, true);
}

extern "C" XOE_API xoe::plugins::xla::Error* xoe_jax_cpu(xoe::plugins::xla::CallFrame* frame) {
  return xoe::plugins::run_collective(*frame, xoe::plugins::the_access);
}

extern "C" XOE_API xoe::plugins::xla::Error* xoe_jax_cuda(xoe::plugins::xla::CallFrame* frame) {
  return xoe::plugins::run_collective_on_gpu(*frame, xoe::plugins::the_access);
}

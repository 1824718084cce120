// Waits without the interpreter's lock, in turns short enough for Ctrl-C.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "errors.h"

namespace xoe::python {

inline constexpr std::int64_t kSignalPatience = 100'000'000;  // ns between two checks for signals

// Runs Python's handlers of signals that have arrived; throws what they raise.
inline void look_at_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace xoe::python

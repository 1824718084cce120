// Waiting without the interpreter's lock, in turns short enough for Ctrl-C.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "errors.h"

namespace xoe::python {

inline constexpr std::int64_t kSignalPatience = 100'000'000;  // ns until a signal is looked at

// Python's handlers of signals that have arrived; what they raise is thrown.
inline void look_at_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace xoe::python

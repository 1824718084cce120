// Turns failures of the C interface into Python exceptions: xoe.errors chooses the class by the code.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "xoe/c.h"

namespace xoe::python {

namespace nb = nanobind;

// Throws. completed: the operation failed on all ranks, not only this call. REQUIRES: the interpreter's lock.
[[noreturn]] void raise(xoe_status status, const std::string& message, bool completed = false);

// For calls that this thread has just made.
inline void check(xoe_status status) {
  if (status != XOE_OK) raise(status, xoe_last_error());
}

// Makes a call without the interpreter's lock.
template <class Call>
xoe_status call_released(Call&& call) {
  const nb::gil_scoped_release release;
  return call();
}

inline constexpr std::int64_t kSignalTimeout = 100'000'000;  // ns between two checks for signals

// Runs Python's handlers of signals that have arrived; throws what they raise.
inline void look_at_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// Text of the library, which may name a file in any bytes.
nb::str text_from(std::string_view text);

// Frees the text.
nb::str take_text(char* text);

}  // namespace xoe::python

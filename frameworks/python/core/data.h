// The input pipeline as Python objects.
#pragma once

#include <nanobind/nanobind.h>

namespace xoe::python {

void bind_data(nanobind::module_& module);

}  // namespace xoe::python

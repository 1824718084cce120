// A second mapping of shared memory, at an address that a framework has given out.
#pragma once

#include <nanobind/nanobind.h>

namespace xoe::python {

void bind_mapping(nanobind::module_& module);

}  // namespace xoe::python

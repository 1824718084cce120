// Quality of scores.
#pragma once

#include <nanobind/nanobind.h>

namespace xoe::python {

void bind_stats(nanobind::module_& module);

}  // namespace xoe::python

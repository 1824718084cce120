// Lets libraries that frameworks load by themselves (frameworks/plugins) reach the engine.
#pragma once

#include <nanobind/nanobind.h>

namespace xoe::python {

void bind_engine_access(nanobind::module_& module);

}  // namespace xoe::python

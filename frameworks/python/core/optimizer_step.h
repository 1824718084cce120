// Fused steps of optimizers.
#pragma once

#include <nanobind/nanobind.h>

namespace xoe::python {

void bind_optimizer_step(nanobind::module_& module);

}  // namespace xoe::python

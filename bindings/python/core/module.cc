// xoe._core: the C interface (xoe/c.h, xoe/c_data.h) in Python, without any logic of its own.
#include <nanobind/nanobind.h>

#include "data.h"
#include "engine.h"
#include "operation.h"

namespace {

void name_numbers(nanobind::module_& module) {
  nanobind::dict dtypes;
  for (std::int32_t dtype = 0; xoe_dtype_name(dtype) != nullptr; ++dtype) dtypes[xoe_dtype_name(dtype)] = dtype;
  module.attr("DTYPES") = dtypes;
  nanobind::dict kinds;
  for (std::int32_t kind = 0; xoe_op_kind_name(kind) != nullptr; ++kind) kinds[xoe_op_kind_name(kind)] = kind;
  module.attr("KINDS") = kinds;
  nanobind::dict reductions;
  for (std::int32_t op = 0; xoe_reduce_op_name(op) != nullptr; ++op) reductions[xoe_reduce_op_name(op)] = op;
  module.attr("REDUCTIONS") = reductions;
  nanobind::dict compressions;
  for (std::int32_t kind = 0; xoe_compression_name(kind) != nullptr; ++kind)
    compressions[xoe_compression_name(kind)] = kind;
  module.attr("COMPRESSIONS") = compressions;
}

// Bytes as the tensor that Engine.submit() takes, to be read.
nanobind::tuple tensor_of(const nanobind::bytes& data) {
  return nanobind::make_tuple(reinterpret_cast<std::uintptr_t>(data.c_str()), 0, nanobind::make_tuple(data.size()),
                              static_cast<std::int32_t>(XOE_UINT8));
}

}  // namespace

NB_MODULE(_core, module) {
  // A program may end while operations are under way; they are no leaks.
  nanobind::set_leak_warnings(false);
  module.doc() = "Xoe's C interface.";
  module.attr("__version__") = xoe_version_string();
  name_numbers(module);
  module.def("tensor_of", &tensor_of, nanobind::arg("data"), "Bytes as a tensor for Engine.submit(), to be read.");
  xoe::python::bind_operation(module);
  xoe::python::bind_engine(module);
  xoe::python::bind_data(module);
}

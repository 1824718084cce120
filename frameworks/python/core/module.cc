// xoe._core: the C interface (xoe/c.h, xoe/c_data.h) in Python, without any logic of its own.
#include <nanobind/nanobind.h>

#include "frameworks/python/core/buckets.h"
#include "frameworks/python/core/data.h"
#include "frameworks/python/core/engine.h"
#include "frameworks/python/core/engine_access.h"
#include "frameworks/python/core/errors.h"
#include "frameworks/python/core/mapping.h"
#include "frameworks/python/core/messages.h"
#include "frameworks/python/core/operation.h"
#include "frameworks/python/core/optimizer_step.h"
#include "frameworks/python/core/shard_sum.h"
#include "frameworks/python/core/stats.h"

namespace {

// The numbers from 0 by their names.
nanobind::dict numbers_by_name(const char* (*name_of)(std::int32_t)) {
  nanobind::dict numbers;
  for (std::int32_t number = 0; name_of(number) != nullptr; ++number) numbers[name_of(number)] = number;
  return numbers;
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
  module.attr("DTYPES") = numbers_by_name(xoe_dtype_name);
  module.attr("KINDS") = numbers_by_name(xoe_op_kind_name);
  module.attr("REDUCTIONS") = numbers_by_name(xoe_reduce_op_name);
  module.attr("COMPRESSIONS") = numbers_by_name(xoe_compression_name);
  module.def("tensor_of", &tensor_of, nanobind::arg("data"), "Bytes as a tensor for Engine.submit(), to be read.");
  module.def(
      "keep_freed_memory", [] { xoe::python::check(xoe_keep_freed_memory()); },
      "Tells glibc to keep freed memory for the next allocations, unless the environment says otherwise.");
  xoe::python::bind_operation(module);
  xoe::python::bind_engine(module);
  xoe::python::bind_engine_access(module);
  xoe::python::bind_messages(module);
  xoe::python::bind_buckets(module);
  xoe::python::bind_data(module);
  xoe::python::bind_mapping(module);
  xoe::python::bind_optimizer_step(module);
  xoe::python::bind_shard_sum(module);
  xoe::python::bind_stats(module);
}

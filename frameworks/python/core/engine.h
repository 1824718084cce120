// The engine as a Python object.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frameworks/python/core/operation.h"
#include "xoe/c.h"

namespace xoe::python {

// Freed by the last call that uses it, which may be another thread's than the one that shuts it down.
using EnginePtr = std::shared_ptr<xoe_engine>;

class Engine {
 public:
  // Joins the group that the environment describes. Seconds.
  // tells_formed: world_formed() is called once new ranks have what they need.
  Engine(std::optional<double> start_timeout, std::vector<std::int32_t> ranks, bool tells_formed);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() { shutdown(); }

  // Calls of other threads that are in the engine end with an error.
  void shutdown();
  // For the end of Python: shuts the engine down when the process ends well, and leaves it alone when the process
  // fails. Peers and the launcher then see the failed process first, and not peers that fail because an engine was shut
  // down.
  void leave_at_exit();
  void abort(const std::string& why);
  EnginePtr get() const;  // throws once it is shut down

  // prepared: the request but for its name, tensors and splits.
  // tensors: tuples (address to read, address to write, shape, dtype).
  Operation submit(const char* name, const nb::sequence& tensors, const xoe_request& prepared,
                   std::optional<std::vector<std::int64_t>> splits, nb::object keep,
                   std::optional<std::uintptr_t> stream, nb::object allocate,
                   const std::optional<std::vector<std::int64_t>>& dense_shape);
  // One tensor in place, with the least effort.
  Operation submit_in_place(const char* name, std::uintptr_t data, const nb::tuple& shape, std::int32_t dtype,
                            const xoe_request& prepared, nb::object keep, std::optional<std::uintptr_t> stream);
  // The same for a tensor of PyTorch, with as few steps of the interpreter as possible. Submits and returns nothing if
  // the tensor is not contiguous host memory of a type in dtypes (PyTorch's type -> number of the type).
  std::optional<Operation> submit_tensor(const char* name, nb::object tensor, const nb::dict& dtypes,
                                         const xoe_request& prepared);

 private:
  Operation start(const xoe_request& request, nb::object keep);

  EnginePtr engine_;  // guarded by the interpreter's lock
};

void bind_engine(nb::module_& module);

}  // namespace xoe::python

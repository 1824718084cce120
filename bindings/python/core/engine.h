// The engine as a Python object.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operation.h"
#include "xoe/c.h"

namespace xoe::python {

struct ShutDown {
  void operator()(xoe_engine* engine) const noexcept { xoe_shutdown(engine); }
};

// What an operation is asked for besides its tensors; the fields of xoe_request.
struct Terms {
  std::int32_t kind = XOE_ALLREDUCE;
  std::int32_t reduce = XOE_SUM;
  double prescale = 1.0;
  double postscale = 1.0;
  std::int32_t root = 0;
  std::int32_t process_set = XOE_WORLD_SET;
  std::int32_t compression = XOE_COMPRESSION_NONE;
  bool error_feedback = false;
  double top_k_ratio = 0.01;
  std::int32_t power_sgd_rank = 4;
};

class Engine {
 public:
  // Joins the group that the environment describes. Seconds.
  explicit Engine(std::optional<double> start_timeout, std::vector<std::int32_t> ranks);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() { shutdown(); }

  void shutdown();
  // For the end of Python: the engine is shut down when the process ends well, and left alone when it fails. Peers, and
  // the launcher, then learn of the failure from its own end, not from what the engine's end makes of the peers.
  void leave_at_exit();
  xoe_engine* get() const;  // throws once it is shut down

  // tensors: tuples (address to read, address to write, shape, dtype).
  Operation submit(const char* name, const nb::sequence& tensors, const Terms& terms,
                   std::optional<std::vector<std::int64_t>> splits, nb::object keep,
                   std::optional<std::uintptr_t> stream, nb::object allocate);
  // One tensor in place, with the least effort.
  Operation submit_in_place(const char* name, std::uintptr_t data, const nb::tuple& shape, std::int32_t dtype,
                            const Terms& terms, nb::object keep, std::optional<std::uintptr_t> stream);
  // The same for a tensor of PyTorch, with as few steps of the interpreter as can be. Nothing is submitted, and nothing
  // returned, where it does not lie in this process as the core takes it. dtypes: numbers of PyTorch's types.
  std::optional<Operation> submit_tensor(const char* name, nb::object tensor, const nb::dict& dtypes,
                                         const Terms& terms);

 private:
  Operation start(const xoe_request& request, nb::object keep);

  std::unique_ptr<xoe_engine, ShutDown> engine_;
};

void bind_engine(nb::module_& module);

}  // namespace xoe::python

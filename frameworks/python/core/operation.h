// A submitted operation, and the objects that must live until it has completed.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>

#include "frameworks/python/core/errors.h"
#include "xoe/c.h"

namespace xoe::python {

struct ReleaseHandle {
  void operator()(xoe_handle* handle) const noexcept { xoe_release(handle); }
};
using HandlePtr = std::unique_ptr<xoe_handle, ReleaseHandle>;

// For one thread at a time, which holds the interpreter's lock.
class Operation {
 public:
  // `keep`: the objects that own the tensors' memory.
  Operation(HandlePtr handle, nb::object keep) : handle_(std::move(handle)), keep_(std::move(keep)) {}
  Operation(Operation&&) = default;
  // An operation that has not completed goes on; the objects that it uses are kept until it has.
  ~Operation();

  bool poll();
  void wait();
  // Makes later work in a GPU's stream wait for the result; see xoe_wait_in_stream().
  void wait_in_stream(std::uintptr_t stream);
  nb::list outputs(nb::handle self);
  nb::list received_splits();
  int last_joined();

  // Releases the objects of abandoned operations that have completed. Cheap when there are none.
  static void sweep();

 private:
  template <class Wait>
  void wait_by(Wait&& wait);

  HandlePtr handle_;
  nb::object keep_;
};

void bind_operation(nb::module_& module);

}  // namespace xoe::python

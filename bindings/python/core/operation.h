// A submitted operation, and what must stay alive until it has completed.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>

#include "errors.h"
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
  // An operation that nobody waited for goes on, and what it works on is kept until then.
  ~Operation();

  bool poll();
  void wait();
  nb::list outputs(nb::handle self);
  nb::list received_splits();
  int last_joined();

  // Lets go of what operations kept that have completed since. Cheap when there are none.
  static void sweep();

 private:
  HandlePtr handle_;
  nb::object keep_;
};

void bind_operation(nb::module_& module);

}  // namespace xoe::python

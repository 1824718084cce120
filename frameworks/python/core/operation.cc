#include "frameworks/python/core/operation.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "frameworks/python/core/arrays.h"
#include "frameworks/python/core/errors.h"

namespace xoe::python {
namespace {

struct Abandoned {
  HandlePtr handle;
  nb::object keep;
};

// Guarded by the interpreter's lock. Never destroyed: the interpreter may be gone by then.
std::vector<Abandoned>& abandoned() {
  static auto* const operations = new std::vector<Abandoned>();
  return *operations;
}

bool completed(xoe_handle* handle) {
  std::int32_t done = 0;
  return xoe_poll(handle, &done) != XOE_OK || done != 0;
}

void need_result(const HandlePtr& handle) {
  if (!handle) raise(XOE_INVALID_ARGUMENT, "the operation was moved from");
}

}  // namespace

Operation::~Operation() {
  if (handle_ && !completed(handle_.get())) abandoned().push_back({std::move(handle_), std::move(keep_)});
}

void Operation::sweep() {
  auto& operations = abandoned();
  if (operations.empty()) return;
  // Removed from the list first: releasing objects may run Python code that submits.
  std::vector<Abandoned> done;
  const auto first = std::stable_partition(operations.begin(), operations.end(),
                                           [](const Abandoned& one) { return !completed(one.handle.get()); });
  std::move(first, operations.end(), std::back_inserter(done));
  operations.erase(first, operations.end());
}

bool Operation::poll() {
  need_result(handle_);
  std::int32_t done = 0;
  check(call_released([&] { return xoe_poll(handle_.get(), &done); }));
  return done != 0;
}

void Operation::wait() {
  wait_by([&] { return xoe_wait_for(handle_.get(), kSignalTimeout); });
}

void Operation::wait_in_stream(std::uintptr_t stream) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): frameworks tell streams as numbers
  wait_by([&] { return xoe_wait_in_stream(handle_.get(), reinterpret_cast<void*>(stream), kSignalTimeout); });
}

template <class Wait>
void Operation::wait_by(Wait&& wait) {
  need_result(handle_);
  for (;;) {
    xoe_status status = call_released(wait);
    // It may have completed just after the turn; a timeout may also be its own error.
    const bool over = status != XOE_TIMEOUT || completed(handle_.get());
    if (over && status == XOE_TIMEOUT) status = xoe_wait(handle_.get());
    if (status == XOE_OK) return;
    if (over) raise(status, xoe_handle_error(handle_.get()), true);
    look_at_signals();
  }
}

nb::list Operation::outputs(nb::handle self) {
  std::size_t count = 0;
  check(xoe_output_count(handle_.get(), &count));
  nb::list arrays;
  for (std::size_t i = 0; i < count; ++i) {
    xoe_output output{};
    check(xoe_output_at(handle_.get(), i, &output));
    arrays.append(array_of(output.data, output.shape, output.ndim, output.dtype, self));
  }
  return arrays;
}

nb::list Operation::received_splits() {
  std::size_t count = 0;
  check(xoe_received_splits(handle_.get(), nullptr, 0, &count));
  std::vector<std::int64_t> rows(count);
  check(xoe_received_splits(handle_.get(), rows.data(), rows.size(), &count));
  nb::list list;
  for (const std::int64_t row : rows) list.append(row);
  return list;
}

int Operation::last_joined() {
  std::int32_t rank = 0;
  check(xoe_last_joined(handle_.get(), &rank));
  return rank;
}

void bind_operation(nb::module_& module) {
  nb::class_<Operation>(module, "Operation")
      .def("poll", &Operation::poll, "Whether it has completed, well or not. Does not block.")
      .def("wait", &Operation::wait,
           "Blocks until it has completed, without the interpreter's lock. Raises the operation's own error.")
      .def("wait_in_stream", &Operation::wait_in_stream, nb::arg("stream"),
           "With XOE_GPU_WAIT=stream: returns once its work is in the GPU's queue; later work in the stream, a "
           "cudaStream_t, waits for the result, and the next operation has an error that comes after that. Else as "
           "wait().")
      .def(
          "outputs", [](nb::handle self) { return nb::cast<Operation&>(self).outputs(self); },
          "Results in memory of the engine, as arrays for DLPack. They keep the operation alive.")
      .def("received_splits", &Operation::received_splits, "Rows of the first dimension received from each rank.")
      .def("last_joined", &Operation::last_joined, "The rank of the world that joined last.");
}

}  // namespace xoe::python

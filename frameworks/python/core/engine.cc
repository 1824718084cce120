#include "frameworks/python/core/engine.h"

#include <nanobind/stl/tuple.h>
#include <stdlib.h>  // on_exit
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <span>
#include <thread>
#include <tuple>
#include <utility>

#include "frameworks/python/core/attributes.h"
#include "frameworks/python/core/errors.h"

namespace xoe::python {
namespace {

constexpr std::size_t kMostDimensions = 64;

// The result of a start in another thread, which may outlive a caller that was interrupted.
struct Start {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  EnginePtr engine;
  xoe_status status = XOE_OK;
  std::string message;
};

// Waits for the start, or for Ctrl-C.
void await(Start& start) {
  for (;;) {
    {
      const nb::gil_scoped_release release;
      std::unique_lock lock(start.mutex);
      if (start.changed.wait_for(lock, std::chrono::nanoseconds(kSignalTimeout), [&] { return start.done; })) return;
    }
    look_at_signals();
  }
}

void run(Start& start, const xoe_options& options) {
  xoe_engine* engine = nullptr;
  const xoe_status status = xoe_init(&options, &engine);
  const std::lock_guard lock(start.mutex);
  start.status = status;
  if (engine != nullptr) start.engine = EnginePtr(engine, xoe_shutdown);
  if (status != XOE_OK) start.message = xoe_last_error();
  start.done = true;
  start.changed.notify_all();
}

// Never destroyed: only finish() knows how the process ends.
std::vector<EnginePtr>& leaving() {
  static auto* const engines = new std::vector<EnginePtr>();
  return *engines;
}

// Python passes addresses as numbers.
void* pointer(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

void finish(int status, void* process) {
  // Not in a forked child.
  if (status != 0 || reinterpret_cast<std::intptr_t>(process) != ::getpid()) return;
  for (const EnginePtr& engine : leaving()) xoe_close(engine.get());
  leaving().clear();
}

std::size_t read_shape(nb::handle shape, std::span<std::int64_t> into) {
  const auto ndim = static_cast<std::size_t>(nb::len(shape));
  if (ndim > into.size()) raise(XOE_INVALID_ARGUMENT, "a tensor has more than 64 dimensions");
  for (std::size_t i = 0; i < ndim; ++i) into[i] = nb::cast<std::int64_t>(shape[i]);
  return ndim;
}

void set_stream(xoe_request& request, std::optional<std::uintptr_t> stream) {
  if (!stream) return;
  request.gpu = 1;
  request.stream = pointer(*stream);
}

// Calls into Python by the thread that makes progress. None starts once Python is about to end.
class Calls {
 public:
  class Guard {
   public:
    Guard() { inside.fetch_add(1); }
    Guard(const Guard&) = delete;
    ~Guard() { inside.fetch_sub(1); }
    bool allowed() const { return !ended.load(); }
  };
  static void end() {
    ended.store(true);
    const nb::gil_scoped_release release;
    while (inside.load() != 0) std::this_thread::yield();
  }

 private:
  static inline std::atomic<int> inside{0};
  static inline std::atomic<bool> ended{false};
};

void* call_allocator(void* allocate, std::size_t index, const std::int64_t* shape, std::int32_t ndim,
                     std::int32_t dtype) {
  const Calls::Guard guard;
  if (!guard.allowed()) return nullptr;
  const nb::gil_scoped_acquire acquire;
  bool interrupted = false;
  void* address = nullptr;
  for (bool again = true; std::exchange(again, false);) {
    try {
      nb::list sizes;
      for (std::int32_t i = 0; i < ndim; ++i) sizes.append(shape[i]);
      const nb::object given = nb::borrow(static_cast<PyObject*>(allocate))(index, nb::tuple(sizes), dtype);
      address = pointer(nb::cast<std::uintptr_t>(given));
    } catch (nb::python_error& error) {
      // The result needs its memory, so the program sees Ctrl-C afterwards.
      again = error.matches(PyExc_KeyboardInterrupt) && !std::exchange(interrupted, true);
      if (!again) error.discard_as_unraisable("xoe: an allocator of results");
    } catch (const std::exception&) {
      address = nullptr;  // it returned no address
    }
  }
  if (interrupted) PyErr_SetInterrupt();
  return address;
}

}  // namespace

Engine::Engine(std::optional<double> start_timeout, std::vector<std::int32_t> ranks, bool tells_formed) {
  xoe_options options;
  xoe_options_init(&options, sizeof(options));
  if (start_timeout) {
    if (!(*start_timeout > 0 && *start_timeout < 1e9))
      raise(XOE_INVALID_ARGUMENT, "start_timeout must be more than 0 s");
    options.start_timeout = static_cast<std::int64_t>(*start_timeout * 1e9);
  }
  options.tells_formed = tells_formed ? 1 : 0;
  auto start = std::make_shared<Start>();
  std::thread([start, options, ranks = std::move(ranks)]() mutable {
    options.ranks = ranks.data();
    options.rank_count = ranks.size();
    run(*start, options);
  }).detach();
  await(*start);
  if (start->status != XOE_OK) raise(start->status, start->message);
  engine_ = std::move(start->engine);
}

void Engine::shutdown() {
  EnginePtr engine = std::move(engine_);
  if (!engine) return;
  const nb::gil_scoped_release release;
  xoe_close(engine.get());
  engine.reset();
}

void Engine::leave_at_exit() {
  if (!engine_) return;
  Calls::end();
  if (leaving().empty()) ::on_exit(finish, pointer(static_cast<std::uintptr_t>(::getpid())));
  leaving().push_back(std::move(engine_));
}

void Engine::abort(const std::string& why) {
  const EnginePtr engine = get();
  check(call_released([&] { return xoe_abort(engine.get(), why.c_str()); }));
}

EnginePtr Engine::get() const {
  if (!engine_) raise(XOE_UNAVAILABLE, "the engine was shut down; call init() again");
  return engine_;
}

Operation Engine::start(const xoe_request& request, nb::object keep) {
  const EnginePtr engine = get();
  xoe_handle* handle = nullptr;
  // A submit may make progress on other operations.
  check(call_released([&] { return xoe_submit(engine.get(), &request, &handle); }));
  Operation operation(HandlePtr(handle), std::move(keep));
  Operation::sweep();
  return operation;
}

Operation Engine::submit(const char* name, const nb::sequence& tensors, const xoe_request& prepared,
                         std::optional<std::vector<std::int64_t>> splits, nb::object keep,
                         std::optional<std::uintptr_t> stream, nb::object allocate,
                         const std::optional<std::vector<std::int64_t>>& dense_shape) {
  const auto count = static_cast<std::size_t>(nb::len(tensors));
  std::vector<xoe_tensor> list(count);
  std::vector<std::array<std::int64_t, kMostDimensions>> shapes(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto [in, out, shape, dtype] =
        nb::cast<std::tuple<std::uintptr_t, std::uintptr_t, nb::object, std::int32_t>>(tensors[i]);
    const std::size_t ndim = read_shape(shape, shapes[i]);
    list[i] = {pointer(in), pointer(out), shapes[i].data(), static_cast<std::int32_t>(ndim), dtype, {}};
  }
  xoe_request request = prepared;
  request.name = name;
  request.tensors = list.data();
  request.tensor_count = count;
  if (splits) {
    request.splits = splits->data();
    request.split_count = splits->size();
  }
  if (dense_shape) {
    request.dense_shape = dense_shape->data();
    request.dense_shape_count = dense_shape->size();
  }
  set_stream(request, stream);
  if (!allocate.is_none()) {
    request.allocator = call_allocator;
    request.allocator_user = allocate.ptr();
    keep = nb::make_tuple(std::move(keep), std::move(allocate));
  }
  return start(request, std::move(keep));
}

Operation Engine::submit_in_place(const char* name, std::uintptr_t data, const nb::tuple& shape, std::int32_t dtype,
                                  const xoe_request& prepared, nb::object keep, std::optional<std::uintptr_t> stream) {
  std::array<std::int64_t, kMostDimensions> sizes;
  const std::size_t ndim = read_shape(shape, sizes);
  void* const address = pointer(data);
  const xoe_tensor tensor{address, address, sizes.data(), static_cast<std::int32_t>(ndim), dtype, {}};
  xoe_request request = prepared;
  request.name = name;
  request.tensors = &tensor;
  request.tensor_count = 1;
  set_stream(request, stream);
  return start(request, std::move(keep));
}

std::optional<Operation> Engine::submit_tensor(const char* name, nb::object tensor, const nb::dict& dtypes,
                                               const xoe_request& prepared) {
  const TensorNames& names = tensor_names();
  if (!is_true(attribute(tensor, names.is_cpu))) return std::nullopt;
  const nb::object dtype = attribute(tensor, names.dtype);
  PyObject* const number = PyDict_GetItemWithError(dtypes.ptr(), dtype.ptr());
  if (number == nullptr || !is_true(call(tensor, names.is_contiguous)) || is_true(call(tensor, names.is_neg)))
    return std::nullopt;
  const auto data = nb::cast<std::uintptr_t>(call(tensor, names.data_ptr));
  const nb::tuple shape(attribute(tensor, names.shape));
  return submit_in_place(name, data, shape, nb::cast<std::int32_t>(nb::handle(number)), prepared, std::move(tensor),
                         std::nullopt);
}

}  // namespace xoe::python

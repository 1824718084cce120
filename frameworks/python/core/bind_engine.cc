// What Python sees of the engine.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "frameworks/python/core/arrays.h"
#include "frameworks/python/core/engine.h"

namespace xoe::python {
namespace {

constexpr double kLongestTimeout = 1e9;  // seconds

struct FreeBuffer {
  void operator()(xoe_buffer* buffer) const noexcept { xoe_buffer_free(buffer); }
};
using BufferPtr = std::unique_ptr<xoe_buffer, FreeBuffer>;

Array array_over(BufferPtr buffer, void* data, std::size_t bytes) {
  const nb::capsule capsule(buffer.get(), [](void* held) noexcept { xoe_buffer_free(static_cast<xoe_buffer*>(held)); });
  static_cast<void>(buffer.release());
  const auto shape = static_cast<std::int64_t>(bytes);
  return array_of(data, &shape, 1, XOE_UINT8, capsule);
}

// Bytes that all ranks of the host map; freed with the last array that shows them.
Array shared_bytes(const Engine& engine, std::size_t bytes) {
  xoe_buffer* buffer = nullptr;
  void* data = nullptr;
  check(xoe_buffer_allocate(engine.get().get(), bytes, &buffer, &data));
  return array_over(BufferPtr(buffer), data, bytes);
}

// This rank's bytes, then those of each rank as this process sees them; none for ranks on other hosts.
nb::tuple host_bytes(const Engine& engine, const std::string& name, std::size_t bytes) {
  const EnginePtr used = engine.get();
  xoe_buffer* buffer = nullptr;
  void* own = nullptr;
  check(xoe_buffer_allocate(used.get(), bytes, &buffer, &own));
  BufferPtr mine(buffer);
  xoe_topology at{};
  check(xoe_topology_of(used.get(), &at));
  const auto size = static_cast<std::size_t>(at.size);
  std::vector<xoe_buffer*> peers(size);
  std::vector<void*> data(size);
  check(call_released(
      [&] { return xoe_buffer_map_peers(used.get(), name.c_str(), buffer, peers.data(), data.data(), size); }));
  nb::list shown;
  for (std::size_t r = 0; r < size; ++r) {
    if (peers[r] == nullptr) {
      shown.append(nb::none());
    } else {
      shown.append(array_over(BufferPtr(peers[r]), data[r], bytes));
    }
  }
  return nb::make_tuple(array_over(std::move(mine), own, bytes), shown);
}

nb::tuple topology(const Engine& engine) {
  xoe_topology at{};
  check(xoe_topology_of(engine.get().get(), &at));
  return nb::make_tuple(at.rank, at.size, at.local_rank, at.local_size, at.cross_rank, at.cross_size);
}

std::string gpu_refusal(const Engine& engine) {
  xoe_status status = XOE_OK;
  std::string why;
  const EnginePtr used = engine.get();
  {
    const nb::gil_scoped_release release;  // libraries are loaded at the first time
    status = xoe_takes_gpu_memory(used.get());
    if (status != XOE_OK) why = xoe_last_error();
  }
  if (status == XOE_INVALID_ARGUMENT) raise(status, why);
  return why;
}

std::int32_t world_change(const Engine& engine) {
  std::int32_t change = XOE_WORLD_FIXED;
  check(xoe_world_change(engine.get().get(), &change));
  return change;
}

void world_formed(const Engine& engine) {
  check(call_released([e = engine.get()] { return xoe_world_formed(e.get()); }));
}

std::int32_t add_process_set(const Engine& engine, const std::vector<std::int32_t>& ranks) {
  std::int32_t set = 0;
  check(
      call_released([&, e = engine.get()] { return xoe_add_process_set(e.get(), ranks.data(), ranks.size(), &set); }));
  return set;
}

void remove_process_set(const Engine& engine, std::int32_t set) {
  check(call_released([set, e = engine.get()] { return xoe_remove_process_set(e.get(), set); }));
}

std::vector<std::int32_t> process_set_ranks(const Engine& engine, std::int32_t set) {
  const EnginePtr used = engine.get();
  std::size_t count = 0;
  check(xoe_process_set_ranks(used.get(), set, nullptr, 0, &count));
  std::vector<std::int32_t> ranks(count);
  check(xoe_process_set_ranks(used.get(), set, ranks.data(), ranks.size(), &count));
  return ranks;
}

void start_timeline(const Engine& engine, const std::string& path) {
  check(call_released([&, e = engine.get()] { return xoe_timeline_start(e.get(), path.c_str()); }));
}

nb::bytes key(const Engine& engine) {
  std::array<unsigned char, XOE_KEY_BYTES> key{};
  check(xoe_key(engine.get().get(), key.data()));
  return nb::bytes(key.data(), key.size());
}

nb::str metrics(const Engine& engine) {
  char* text = nullptr;
  check(xoe_metrics(engine.get().get(), &text));
  return take_text(text);
}

void bind_request(nb::module_& module) {
  nb::class_<xoe_request>(module, "Request")
      .def(
          "__init__",
          [](xoe_request* request, std::int32_t kind, std::int32_t reduce, double prescale, double postscale,
             std::int32_t root, std::int32_t process_set, std::int32_t compression, bool error_feedback,
             double top_k_ratio, std::int32_t power_sgd_rank, bool needs_all_ranks, bool queue_same_name,
             double timeout) {
            xoe_request_init(new (request) xoe_request, sizeof(xoe_request));
            request->kind = kind;
            request->reduce = reduce;
            request->prescale = prescale;
            request->postscale = postscale;
            request->root = root;
            request->process_set = process_set;
            request->compression = compression;
            request->error_feedback = error_feedback ? 1 : 0;
            request->top_k_ratio = top_k_ratio;
            request->power_sgd_rank = power_sgd_rank;
            request->needs_all_ranks = needs_all_ranks ? 1 : 0;
            request->queue_same_name = queue_same_name ? 1 : 0;
            request->timeout = static_cast<std::int64_t>(std::clamp(timeout, 0.0, kLongestTimeout) * 1e9);
          },
          nb::arg("kind"), nb::arg("reduce") = int{XOE_SUM}, nb::arg("prescale") = 1.0, nb::arg("postscale") = 1.0,
          nb::arg("root") = 0, nb::arg("process_set") = int{XOE_WORLD_SET},
          nb::arg("compression") = int{XOE_COMPRESSION_NONE}, nb::arg("error_feedback") = false,
          nb::arg("top_k_ratio") = 0.01, nb::arg("power_sgd_rank") = 4, nb::arg("needs_all_ranks") = false,
          nb::arg("queue_same_name") = false, nb::arg("timeout") = 0.0,
          "An operation without its name and tensors, for any number of submits; xoe/c.h has the numbers. timeout: "
          "seconds;\n0: the engine's limit.");
}

}  // namespace

void bind_engine(nb::module_& module) {
  bind_request(module);
  nb::class_<Engine>(module, "Engine", nb::is_weak_referenceable())
      .def(nb::init<std::optional<double>, std::vector<std::int32_t>, bool>(), nb::arg("start_timeout") = nb::none(),
           nb::arg("ranks") = nb::list(), nb::arg("tells_formed") = false,
           "Joins the group that the launcher described in the environment; else a group of one. Collective.\n\n"
           "start_timeout: seconds to wait for all ranks to appear. ranks: of the job, this rank's group; none: all. "
           "tells_formed: world_formed() is called.")
      .def("shutdown", &Engine::shutdown, "Ends it: what is pending fails, here and at the peers. Twice is once.")
      .def("leave_at_exit", &Engine::leave_at_exit, "Shuts it down when the process has ended well, not when it fails.")
      .def("abort", &Engine::abort, nb::arg("why"),
           "This rank has failed and will end: tells the peers, with the reason, and the launcher.")
      .def("gpu_refusal", &gpu_refusal, "Why it does not take memory of this process's GPU; empty: it does.")
      .def("world_change", &world_change,
           "What the launcher wants: 0 the number of ranks never changes, 1 stay, 2 re-form the world, 3 leave it.")
      .def("world_formed", &world_formed, "Tells the launcher that ranks that have joined have what they need.")
      .def("topology", &topology, "rank, size, local rank and size, cross rank and size")
      .def("key", &key, "A secret that only the processes know that joined together.")
      .def("submit", &Engine::submit, nb::arg("name"), nb::arg("tensors"), nb::arg("request"),
           nb::arg("splits") = nb::none(), nb::arg("keep") = nb::none(), nb::arg("stream") = nb::none(),
           nb::arg("allocate") = nb::none(), nb::arg("dense_shape") = nb::none(),
           "Starts an operation; without a name (\"\") it meets the nameless ones of its kind by order. Takes dense "
           "row-major\n"
           "tensors, each a tuple (address to read, address to write, shape, dtype). keep: what owns their memory, "
           "held until the operation has completed. stream: of a GPU, in whose memory they are: what stands in it is "
           "done before they are read.\nallocate(index, shape, dtype): gives the address for a result whose size was "
           "not known; any thread calls it.")
      .def("submit_in_place", &Engine::submit_in_place, nb::arg("name"), nb::arg("data"), nb::arg("shape"),
           nb::arg("dtype"), nb::arg("request"), nb::arg("keep") = nb::none(), nb::arg("stream") = nb::none(),
           "submit() of one tensor in place.")
      .def(
          "submit_tensor", &Engine::submit_tensor, nb::arg("name"), nb::arg("tensor"), nb::arg("dtypes"),
          nb::arg("request"),
          "submit_in_place() of a tensor of PyTorch; None, and nothing is submitted, where it is not contiguous memory "
          "of\nthe host and of a type in dtypes.")
      .def("shared_bytes", &shared_bytes, nb::arg("bytes"),
           "Zeroed bytes that all ranks of this host map: tensors in them are reduced without a copy.")
      .def("host_bytes", &host_bytes, nb::arg("name"), nb::arg("bytes"),
           "shared_bytes() of this rank, and a list of every rank's as this process sees them: None for ranks on other "
           "hosts. Collective.\nWhat peers' arrays show lasts as long as they keep theirs.")
      .def("add_process_set", &add_process_set, nb::arg("ranks"), "Collective over the world.")
      .def("remove_process_set", &remove_process_set, nb::arg("process_set"), "Collective over the world.")
      .def("process_set_ranks", &process_set_ranks, nb::arg("process_set"), "World ranks by set rank.")
      .def("start_timeline", &start_timeline, nb::arg("path"), "Collective.")
      .def("stop_timeline", [](const Engine& engine) { check(xoe_timeline_stop(engine.get().get())); })
      .def(
          "mark",
          [](const Engine& engine, const char* lane, const char* name, std::int64_t start, std::int64_t stop) {
            check(xoe_timeline_mark(engine.get().get(), lane, name, start, stop));
          },
          nb::arg("lane"), nb::arg("name"), nb::arg("start"), nb::arg("stop"),
          "A bar in the timeline; nanoseconds of time.monotonic_ns().")
      .def(
          "note_step", [](const Engine& engine) { check(xoe_note_step(engine.get().get())); },
          "A training step has ended: counted in metrics() and for the panel of xoe run.")
      .def("metrics", &metrics, "Counters in Prometheus's text format.");
}

}  // namespace xoe::python

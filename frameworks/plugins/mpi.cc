// libxoe_mpi.so: XLA's CPU collectives on Xoe, through the MPI interface that jaxlib loads
// (JAX_CPU_COLLECTIVES_IMPLEMENTATION=mpi, MPITRAMPOLINE_LIB), so that psum and sharded programs of JAX run on it
// unchanged. `xoe run --jax` sets it up. XLA calls 15 functions; each returns 0, or 1 and leaves a text for
// MPI_Error_string().
#include <algorithm>
#include <array>
#include <complex>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "frameworks/plugins/mpi_names.h"
#include "xoe/c.h"

#define XOE_MPI_ENUMERATOR(name) k_##name,
#define XOE_MPI_VARIABLE(name) XOE_API std::uintptr_t MPIABI_##name = mpi_constant(Constant::k_##name);

namespace xoe::plugins {
namespace {

enum class Constant : std::uint16_t { XOE_MPI_CONSTANTS(XOE_MPI_ENUMERATOR) };

constexpr std::uintptr_t kNull = 0;
constexpr std::uintptr_t kWorld = 1;  // handles of communicators are indices, from 1

constexpr std::uintptr_t mpi_constant(Constant constant) {
  switch (constant) {
    case Constant::k_SUCCESS:
    case Constant::k_THREAD_SINGLE:
    case Constant::k_STATUS_IGNORE:
    case Constant::k_STATUSES_IGNORE:
    case Constant::k_COMM_NULL:
    case Constant::k_REQUEST_NULL: return kNull;
    case Constant::k_COMM_WORLD: return kWorld;
    case Constant::k_THREAD_FUNNELED: return 1;
    case Constant::k_THREAD_SERIALIZED: return 2;
    case Constant::k_THREAD_MULTIPLE: return 3;
    default: return 0x1000 + static_cast<std::uintptr_t>(constant);
  }
}

constexpr int kUndefined = static_cast<int>(mpi_constant(Constant::k_UNDEFINED));

thread_local std::string the_failure;

int fail(std::string why) {
  the_failure = std::move(why);
  return 1;
}

int check(xoe_status status) {
  return status == XOE_OK ? 0 : fail(std::string("xoe ") + xoe_status_name(status) + ": " + xoe_last_error());
}

struct Communicator {
  std::int32_t set = XOE_WORLD_SET;
  std::uint64_t context = 0;
  std::vector<std::int32_t> ranks;  // of the world, by rank
  int rank = 0;
};

struct FreeMessage {
  void operator()(xoe_message* message) const noexcept { xoe_message_free(message); }
};
using MessagePtr = std::unique_ptr<xoe_message, FreeMessage>;

struct World {
  xoe_engine* engine = nullptr;
  xoe_topology at{};
  xoe_messages* messages = nullptr;

  std::mutex mutex;
  std::vector<std::shared_ptr<const Communicator>> communicators;  // by handle - 1
  struct Pending {
    MessagePtr message;
    std::uint64_t context;
  };
  std::map<std::uintptr_t, Pending> requests;
  std::map<std::uint64_t, std::string> broken;  // by context: why its messages are out of step
  std::uintptr_t next_request = 1;
  std::uint64_t splits = 0;
};

World* the_world = nullptr;

std::shared_ptr<const Communicator> communicator(std::uintptr_t handle) {
  if (the_world == nullptr) return nullptr;
  const std::lock_guard lock(the_world->mutex);
  const auto& all = the_world->communicators;
  return handle >= 1 && handle <= all.size() ? all[handle - 1] : nullptr;
}

std::uintptr_t add(std::shared_ptr<const Communicator> made) {
  const std::lock_guard lock(the_world->mutex);
  the_world->communicators.push_back(std::move(made));
  return the_world->communicators.size();
}

// ---- Types and reductions

struct Type {
  std::int32_t dtype = -1;
  std::size_t bytes = 0;
  bool is_unsigned = false;
  bool is_complex = false;
};

Type type_of(std::uintptr_t handle) {
  struct Row {
    Constant constant;
    Type type;
  };
  static constexpr std::array kRows{
      Row{Constant::k_BYTE, {XOE_UINT8, 1}},
      Row{Constant::k_UINT8_T, {XOE_UINT8, 1}},
      Row{Constant::k_INT8_T, {XOE_INT8, 1}},
      Row{Constant::k_INT16_T, {XOE_INT16, 2}},
      Row{Constant::k_UINT16_T, {XOE_INT16, 2, true}},
      Row{Constant::k_INT32_T, {XOE_INT32, 4}},
      Row{Constant::k_UINT32_T, {XOE_INT32, 4, true}},
      Row{Constant::k_INT64_T, {XOE_INT64, 8}},
      Row{Constant::k_UINT64_T, {XOE_INT64, 8, true}},
      Row{Constant::k_FLOAT, {XOE_FLOAT32, 4}},
      Row{Constant::k_DOUBLE, {XOE_FLOAT64, 8}},
      Row{Constant::k_C_COMPLEX, {XOE_FLOAT32, 8, false, true}},
      Row{Constant::k_C_DOUBLE_COMPLEX, {XOE_FLOAT64, 16, false, true}},
  };
  const auto* const row = std::ranges::find(kRows, handle, [](const Row& one) { return mpi_constant(one.constant); });
  return row != kRows.end() ? row->type : Type{};
}

std::int32_t reduction_of(std::uintptr_t op) {
  if (op == mpi_constant(Constant::k_SUM)) return XOE_SUM;
  if (op == mpi_constant(Constant::k_PROD)) return XOE_PRODUCT;
  if (op == mpi_constant(Constant::k_MIN)) return XOE_MIN;
  if (op == mpi_constant(Constant::k_MAX)) return XOE_MAX;
  return -1;
}

// Turns the order of unsigned numbers into that of signed ones, and back.
void flip(std::byte* data, std::size_t count, std::size_t bytes) {
  for (std::size_t i = 0; i < count; ++i) data[i * bytes + bytes - 1] ^= std::byte{0x80};  // little endian
}

struct Place {
  void* data;
  std::size_t bytes;
};

void* allocate_there(void* user, std::size_t, const std::int64_t* shape, std::int32_t ndim, std::int32_t dtype) {
  const Place& place = *static_cast<Place*>(user);
  std::size_t bytes = xoe_dtype_size(dtype);
  for (std::int32_t d = 0; d < ndim; ++d) bytes *= static_cast<std::size_t>(shape[d]);
  static char empty;
  if (bytes != place.bytes) return nullptr;
  return bytes > 0 ? place.data : &empty;
}

int run(const Communicator& in, std::int32_t kind, std::int32_t reduce, const void* from, Place to, std::int32_t dtype,
        std::span<const std::int64_t> shape, std::span<const std::int64_t> splits = {}) {
  xoe_tensor tensor{};
  tensor.in = from;
  tensor.shape = shape.data();
  tensor.ndim = static_cast<std::int32_t>(shape.size());
  tensor.dtype = dtype;
  xoe_request request;
  xoe_request_init(&request, sizeof(request));
  request.kind = kind;
  request.reduce = reduce;
  request.tensors = &tensor;
  request.tensor_count = 1;
  request.process_set = in.set;
  request.splits = splits.empty() ? nullptr : splits.data();
  request.split_count = splits.size();
  if (kind == XOE_ALLREDUCE) {
    tensor.out = to.data;
  } else {
    request.allocator = &allocate_there;
    request.allocator_user = &to;
  }
  return check(xoe_run(the_world->engine, &request));
}

template <class Number>
void multiply(Number* product, const Number* factor, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) product[i] *= factor[i];
}

// The engine has no complex numbers: each rank multiplies what all have gathered.
int complex_product(const Communicator& in, const void* from, void* to, std::size_t count, const Type& type) {
  const std::size_t bytes = count * type.bytes;
  const auto size = in.ranks.size();
  std::vector<std::byte> all(bytes * size);
  const std::array<std::int64_t, 1> shape{static_cast<std::int64_t>(bytes)};
  if (const int failed = run(in, XOE_ALLGATHER, XOE_SUM, from, {all.data(), all.size()}, XOE_UINT8, shape))
    return failed;
  std::memcpy(to, all.data(), bytes);
  for (std::size_t r = 1; r < size; ++r) {
    const void* const factor = all.data() + r * bytes;
    if (type.dtype == XOE_FLOAT32) {
      multiply(static_cast<std::complex<float>*>(to), static_cast<const std::complex<float>*>(factor), count);
    } else {
      multiply(static_cast<std::complex<double>*>(to), static_cast<const std::complex<double>*>(factor), count);
    }
  }
  return 0;
}

int allreduce(const Communicator& in, const void* from, void* to, std::size_t count, const Type& type,
              std::int32_t reduce) {
  if (type.is_complex && reduce == XOE_PRODUCT) return complex_product(in, from, to, count, type);
  if (type.is_complex && reduce != XOE_SUM) return fail("xoe unsupported: complex numbers have no order");
  const std::array<std::int64_t, 1> shape{static_cast<std::int64_t>(type.is_complex ? 2 * count : count)};
  const std::size_t bytes = count * type.bytes;
  const bool turned = type.is_unsigned && (reduce == XOE_MIN || reduce == XOE_MAX);
  if (turned) {
    if (from != to) std::memcpy(to, from, bytes);
    flip(static_cast<std::byte*>(to), count, type.bytes);
    from = to;
  }
  if (const int failed = run(in, XOE_ALLREDUCE, reduce, from, {to, bytes}, type.dtype, shape)) return failed;
  if (turned) flip(static_cast<std::byte*>(to), count, type.bytes);
  return 0;
}

// ---- Splitting

struct Choice {
  std::int64_t color;
  std::int64_t key;
};

// Every rank makes every group, in the order of colours.
int split(int color, int key, std::uintptr_t* made) {
  World& world = *the_world;
  const Choice own{color, key};
  std::vector<Choice> all(static_cast<std::size_t>(world.at.size));
  const Communicator everyone = *communicator(kWorld);
  const std::array<std::int64_t, 2> shape{1, 2};
  if (const int failed =
          run(everyone, XOE_ALLGATHER, XOE_SUM, &own, {all.data(), all.size() * sizeof(Choice)}, XOE_INT64, shape))
    return failed;
  std::map<std::int64_t, std::vector<std::int32_t>> groups;
  for (std::int32_t r = 0; r < world.at.size; ++r) {
    const std::int64_t chosen = all[static_cast<std::size_t>(r)].color;
    if (chosen != kUndefined) groups[chosen].push_back(r);
  }
  *made = kNull;
  std::uint64_t context = 0;
  {
    const std::lock_guard lock(world.mutex);
    context = ++world.splits;
  }
  for (auto& [chosen, ranks] : groups) {
    std::ranges::stable_sort(ranks, {}, [&](std::int32_t r) { return all[static_cast<std::size_t>(r)].key; });
    Communicator group;
    group.context = context;
    group.ranks = ranks;
    if (ranks != everyone.ranks &&
        check(xoe_add_process_set(world.engine, ranks.data(), ranks.size(), &group.set)) != 0)
      return 1;
    const auto mine = std::ranges::find(ranks, world.at.rank);
    if (mine == ranks.end()) continue;
    group.rank = static_cast<int>(mine - ranks.begin());
    *made = add(std::make_shared<const Communicator>(std::move(group)));
  }
  return 0;
}

std::uintptr_t remember(MessagePtr message, std::uint64_t context) {
  const std::lock_guard lock(the_world->mutex);
  const std::uintptr_t handle = the_world->next_request++;
  the_world->requests.emplace(handle, World::Pending{std::move(message), context});
  return handle;
}

// XLA returns at the first error and frees its buffers: nothing may be read or written there any more. Messages of this
// communicator are out of step from then on.
int give_up(std::uint64_t context) {
  const std::lock_guard lock(the_world->mutex);
  std::erase_if(the_world->requests, [&](const auto& one) { return one.second.context == context; });
  the_world->broken.try_emplace(context, the_failure);
  return 1;
}

// Whether messages of the communicator may still be exchanged.
bool is_whole(const Communicator& in) {
  const std::lock_guard lock(the_world->mutex);
  const auto found = the_world->broken.find(in.context);
  if (found == the_world->broken.end()) return true;
  fail(found->second + " (earlier)");
  return false;
}

int wait(xoe_message* message) {
  std::int32_t done = 0;
  while (done == 0) {
    if (const int failed = check(xoe_message_wait(message, INT64_MAX, &done))) return failed;
  }
  return 0;
}

// The world's rank; -1: there is none, and the_failure says why.
int world_rank(const Communicator& in, int rank) {
  if (rank >= 0 && static_cast<std::size_t>(rank) < in.ranks.size()) return in.ranks[static_cast<std::size_t>(rank)];
  fail("xoe invalid_argument: there is no rank " + std::to_string(rank));
  return -1;
}

// Null: the_failure says why.
MessagePtr start_send(const Communicator& in, const void* data, std::size_t bytes, int to) {
  xoe_message* message = nullptr;
  const int peer = world_rank(in, to);
  if (peer >= 0) check(xoe_message_send(the_world->messages, peer, in.context, data, bytes, 0, &message));
  return MessagePtr(message);
}

MessagePtr start_receive(const Communicator& in, void* data, std::size_t bytes, int from) {
  xoe_message* message = nullptr;
  const int peer = world_rank(in, from);
  if (peer >= 0) check(xoe_message_receive(the_world->messages, peer, in.context, data, bytes, 0, &message));
  return MessagePtr(message);
}

const char* const kNoCommunicator = "xoe invalid_argument: no such communicator";
const char* const kNoType = "xoe unsupported: a type or reduction that XLA does not use";

}  // namespace
}  // namespace xoe::plugins

using namespace xoe::plugins;

// Names are the interface's.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

XOE_MPI_CONSTANTS(XOE_MPI_VARIABLE)

#define XOE_MPI_REFUSED(name) \
  XOE_API int MPIABI_##name() { return fail("xoe unsupported: MPI_" #name " (libxoe_mpi.so has what XLA calls)"); }
XOE_MPI_OTHER_FUNCTIONS(XOE_MPI_REFUSED)

XOE_API int MPIXABI_Query_cuda_support() { return 0; }
XOE_API int MPIXABI_Query_hip_support() { return 0; }
XOE_API int MPIXABI_Query_ze_support() { return 0; }
XOE_API void mpiwrapper_export_fortran_constants_() {}
XOE_API int mpiabi_version_major = 2;
XOE_API int mpiabi_version_minor = 9;
XOE_API int mpiabi_version_patch = 0;
XOE_API int mpiwrapper_version_major = 2;
XOE_API int mpiwrapper_version_minor = 11;
XOE_API int mpiwrapper_version_patch = 0;

XOE_API int MPIABI_Init_thread(int*, char***, int, int* provided) {
  if (provided != nullptr) *provided = 3;
  if (the_world != nullptr) return 0;
  auto world = std::make_unique<World>();
  if (const int failed = check(xoe_init(nullptr, &world->engine))) return failed;
  if (const int failed = check(xoe_topology_of(world->engine, &world->at))) return failed;
  auto everyone = std::make_shared<Communicator>();
  for (std::int32_t r = 0; r < world->at.size; ++r) everyone->ranks.push_back(r);
  everyone->rank = world->at.rank;
  world->communicators.push_back(std::move(everyone));
  // XLA waits for all that it starts.
  constexpr std::int32_t kNoThread = 0;
  if (const int failed = check(xoe_messages_open(world->engine, "xla", kNoThread, &world->messages))) return failed;
  the_world = world.release();
  return 0;
}

// XLA asks in threads of its pool, and would refuse to go on.
XOE_API int MPIABI_Is_thread_main(int* flag) {
  *flag = 1;
  return 0;
}

XOE_API int MPIABI_Get_library_version(char* version, int* length) {
  const std::string text = std::string("Xoe ") + xoe_version_string();
  std::memcpy(version, text.c_str(), text.size() + 1);
  *length = static_cast<int>(text.size());
  return 0;
}

XOE_API int MPIABI_Comm_rank(std::uintptr_t handle, int* rank) {
  const auto in = communicator(handle);
  if (!in) return fail(kNoCommunicator);
  *rank = in->rank;
  return 0;
}

XOE_API int MPIABI_Comm_size(std::uintptr_t handle, int* size) {
  const auto in = communicator(handle);
  if (!in) return fail(kNoCommunicator);
  *size = static_cast<int>(in->ranks.size());
  return 0;
}

XOE_API int MPIABI_Comm_split(std::uintptr_t handle, int color, int key, std::uintptr_t* made) {
  if (handle != kWorld || the_world == nullptr) return fail(kNoCommunicator);
  return split(color, key, made);
}

// Sets last as long as the engine. XLA also calls this after MPI_Finalize().
XOE_API int MPIABI_Comm_free(std::uintptr_t* handle) {
  *handle = kNull;
  return 0;
}

XOE_API int MPIABI_Finalize() {
  if (the_world == nullptr) return 0;
  std::unique_ptr<World> world(std::exchange(the_world, nullptr));
  world->requests.clear();
  xoe_messages_close(world->messages);
  xoe_shutdown(world->engine);
  return 0;
}

XOE_API int MPIABI_Error_string(int, char* text, int* length) {
  constexpr std::size_t kMost = 255;
  const std::string shown = the_failure.substr(0, kMost);
  std::memcpy(text, shown.c_str(), shown.size() + 1);
  *length = static_cast<int>(shown.size());
  return 0;
}

XOE_API int MPIABI_Allreduce(const void* from, void* to, int count, std::uintptr_t type, std::uintptr_t op,
                             std::uintptr_t handle) {
  const auto in = communicator(handle);
  if (!in) return fail(kNoCommunicator);
  const Type known = type_of(type);
  const std::int32_t reduce = reduction_of(op);
  if (known.dtype < 0 || reduce < 0 || count < 0) return fail(kNoType);
  return allreduce(*in, from, to, static_cast<std::size_t>(count), known, reduce);
}

XOE_API int MPIABI_Allgather(const void* from, int, std::uintptr_t, void* to, int count, std::uintptr_t type,
                             std::uintptr_t handle) {
  const auto in = communicator(handle);
  if (!in) return fail(kNoCommunicator);
  const Type known = type_of(type);
  if (known.dtype < 0 || count < 0) return fail(kNoType);
  const std::size_t bytes = static_cast<std::size_t>(count) * known.bytes;
  const std::array<std::int64_t, 1> shape{static_cast<std::int64_t>(bytes)};
  return run(*in, XOE_ALLGATHER, XOE_SUM, from, {to, bytes * in->ranks.size()}, XOE_UINT8, shape);
}

XOE_API int MPIABI_Reduce_scatter(const void* from, void* to, const int* counts, std::uintptr_t type, std::uintptr_t op,
                                  std::uintptr_t handle) {
  const auto in = communicator(handle);
  if (!in) return fail(kNoCommunicator);
  const Type known = type_of(type);
  const std::int32_t reduce = reduction_of(op);
  const auto size = in->ranks.size();
  if (known.dtype < 0 || reduce < 0 || !std::all_of(counts, counts + size, [&](int one) { return one == counts[0]; }))
    return fail(kNoType);
  const auto chunk = static_cast<std::size_t>(counts[0]);
  const bool direct =
      (!known.is_complex || reduce == XOE_SUM) && !(known.is_unsigned && reduce > XOE_SUM && reduce != XOE_PRODUCT);
  if (direct) {
    const auto elements = static_cast<std::int64_t>(known.is_complex ? 2 * chunk : chunk);
    const std::array<std::int64_t, 2> shape{static_cast<std::int64_t>(size), elements};
    return run(*in, XOE_REDUCE_SCATTER, reduce, from, {to, chunk * known.bytes}, known.dtype, shape);
  }
  std::vector<std::byte> all(chunk * size * known.bytes);
  if (const int failed = allreduce(*in, from, all.data(), chunk * size, known, reduce)) return failed;
  const std::size_t own = chunk * known.bytes;
  std::memcpy(to, all.data() + own * static_cast<std::size_t>(in->rank), own);
  return 0;
}

XOE_API int MPIABI_Isend(const void* from, int count, std::uintptr_t type, int to, int, std::uintptr_t handle,
                         std::uintptr_t* request) {
  const auto in = communicator(handle);
  if (!in) return fail(kNoCommunicator);
  const Type known = type_of(type);
  if (known.dtype < 0 || count < 0) return fail(kNoType);
  if (!is_whole(*in)) return 1;
  auto message = start_send(*in, from, static_cast<std::size_t>(count) * known.bytes, to);
  if (!message) return give_up(in->context);
  *request = remember(std::move(message), in->context);
  return 0;
}

XOE_API int MPIABI_Irecv(void* to, int count, std::uintptr_t type, int from, int, std::uintptr_t handle,
                         std::uintptr_t* request) {
  const auto in = communicator(handle);
  if (!in) return fail(kNoCommunicator);
  const Type known = type_of(type);
  if (known.dtype < 0 || count < 0) return fail(kNoType);
  if (!is_whole(*in)) return 1;
  auto message = start_receive(*in, to, static_cast<std::size_t>(count) * known.bytes, from);
  if (!message) return give_up(in->context);
  *request = remember(std::move(message), in->context);
  return 0;
}

XOE_API int MPIABI_Wait(std::uintptr_t* request, void*) {
  if (the_world == nullptr || *request == kNull) return 0;
  World::Pending found;
  {
    const std::lock_guard lock(the_world->mutex);
    const auto at = the_world->requests.find(*request);
    if (at == the_world->requests.end())
      return fail("xoe invalid_argument: no such request, or one that was given up after an earlier error");
    found = std::move(at->second);
    the_world->requests.erase(at);
  }
  *request = kNull;
  return wait(found.message.get()) == 0 ? 0 : give_up(found.context);
}

XOE_API int MPIABI_Sendrecv(const void* from, int sent, std::uintptr_t, int to_rank, int, void* to, int received,
                            std::uintptr_t, int from_rank, int, std::uintptr_t handle, void*) {
  const auto in = communicator(handle);
  if (!in || sent < 0 || received < 0) return fail(kNoCommunicator);
  if (!is_whole(*in)) return 1;
  const auto receiving = start_receive(*in, to, static_cast<std::size_t>(received), from_rank);
  const auto sending = start_send(*in, from, static_cast<std::size_t>(sent), to_rank);
  if (receiving && sending && wait(receiving.get()) == 0 && wait(sending.get()) == 0) return 0;
  return give_up(in->context);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

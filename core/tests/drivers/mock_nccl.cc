// The mock's NCCL.
#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "core/base/float16.h"
#include "core/tests/drivers/mock_machine.h"
#include "xoe/tensor.h"

namespace xoe::testing {
namespace {

using Kind = MockLaunch::Kind;

// Of this thread, as NCCL has it.
struct Group {
  int depth = 0;
  std::vector<MockLaunch> launches = {};
  NcclResult error = NcclResult::kSuccess;
};
thread_local Group group;

constexpr const char* kNames[] = {"ncclAllReduce",     "ncclBroadcast", "ncclReduce", "ncclAllGather",
                                  "ncclReduceScatter", "ncclSend",      "ncclRecv"};

std::size_t width_of(NcclType type) {
  switch (type) {
    case NcclType::kInt8:
    case NcclType::kUint8: return 1;
    case NcclType::kFloat16:
    case NcclType::kBfloat16: return 2;
    case NcclType::kInt32:
    case NcclType::kFloat32: return 4;
    default: return 8;
  }
}

// What a real library would crash or go wrong with.
bool is_sound(MockMachine& machine, const MockLaunch& l) {
  const MockComm& comm = *l.comm;
  const std::size_t bytes = l.count * width_of(l.type);
  const std::size_t in = l.kind == Kind::kReduceScatter ? bytes * comm.clique->size : bytes;
  const std::size_t out = l.kind == Kind::kAllGather ? bytes * comm.clique->size : bytes;
  const bool reads = l.kind != Kind::kRecv && (l.kind != Kind::kBroadcast || l.peer == comm.rank);
  const bool writes = l.kind != Kind::kSend && (l.kind != Kind::kReduce || l.peer == comm.rank);
  if (reads && !machine.holds(l.in, in, comm.device)) machine.misuse(fmt::format("{}: in", kNames[int(l.kind)]));
  if (writes && !machine.holds(l.out, out, comm.device)) machine.misuse(fmt::format("{}: out", kNames[int(l.kind)]));
  if (mock_device() != comm.device || machine.stream(l.stream).device != comm.device) machine.misuse("another GPU");
  return machine.misuses_free();
}

NcclResult end_group() {
  MockMachine& machine = mock_machine();
  const Group own = std::exchange(group, {});
  if (own.error != NcclResult::kSuccess || own.launches.empty()) return own.error;
  std::unique_lock lock(machine.mutex);
  auto launches = std::make_shared<std::vector<MockLaunch>>(own.launches);
  MockComm& comm = *launches->front().comm;
  MockFaults& faults = machine.faults[static_cast<std::size_t>(comm.device)];
  if (faults.launch != NcclResult::kSuccess) return faults.launch;
  if (faults.blocks && comm.blocking) {
    machine.changed.wait(lock, [&] { return comm.aborted; });
    return NcclResult::kInternalError;
  }
  for (MockLaunch& l : *launches) {
    if (l.comm != &comm || l.stream != launches->front().stream) machine.misuse("one group, several communicators");
    if (l.kind != Kind::kSend && l.kind != Kind::kRecv) l.number = comm.next++;
  }
  machine.enqueue(launches->front().stream, [&machine, launches] { machine.run(*launches); });
  if (comm.blocking) return NcclResult::kSuccess;
  comm.in_progress = machine.answers_in_progress;
  return comm.in_progress > 0 ? NcclResult::kInProgress : NcclResult::kSuccess;
}

NcclResult launch(MockLaunch l, NcclComm handle) {
  MockMachine& machine = mock_machine();
  {
    const std::lock_guard lock(machine.mutex);
    l.comm = machine.comm(handle, kNames[int(l.kind)]);
    if (l.comm == nullptr) return NcclResult::kInvalidArgument;
    machine.log(l.comm->device, kNames[int(l.kind)], l.stream);
    if (l.kind == Kind::kAllReduce || l.kind == Kind::kReduce || l.kind == Kind::kReduceScatter) {
      if (static_cast<int>(l.op) > 4) {
        const auto factor = l.comm->factors.find(static_cast<int>(l.op));
        if (factor == l.comm->factors.end())
          machine.misuse("an operator that is none");
        else
          l.factor = factor->second;
      }
      if (l.op == NcclOp::kAverage && machine.version < nccl_version(2, 10, 0)) return NcclResult::kInvalidArgument;
      if (l.type == NcclType::kBfloat16 && machine.version < nccl_version(2, 10, 0))
        return NcclResult::kInvalidArgument;
    }
    if (!is_sound(machine, l)) group.error = NcclResult::kInvalidArgument;
  }
  group.launches.push_back(l);
  return group.depth > 0 ? NcclResult::kSuccess : end_group();
}

NcclResult init_rank_config(NcclComm* comm, int size, NcclUniqueId id, int rank, NcclConfig* config) {
  const NcclConfig fresh;
  if (config->magic != fresh.magic || config->size < offsetof(NcclConfig, unset) || config->version < 21400)
    return NcclResult::kInvalidArgument;
  return mock_machine().join(comm, size, id, rank, config->blocking != 0);
}

NcclResult get_async_error(NcclComm handle, NcclResult* error) {
  MockMachine& machine = mock_machine();
  const std::lock_guard lock(machine.mutex);
  MockComm* const comm = reinterpret_cast<MockComm*>(handle);
  if (!comm->alive()) {
    machine.misuse("ncclCommGetAsyncError: the communicator is gone");
    return NcclResult::kInvalidArgument;
  }
  MockClique& clique = *comm->clique;
  *error = NcclResult::kInProgress;
  if (comm->joining && clique.joined == clique.size) {
    comm->joining = false;
    if (clique.refusal != NcclResult::kSuccess) comm->error = clique.refusal;
  }
  if (comm->error != NcclResult::kSuccess)
    *error = comm->error;
  else if (comm->joining || (comm->finalized && clique.finalized < clique.size))
    return NcclResult::kSuccess;
  else if (comm->in_progress > 0)
    --comm->in_progress;
  else
    *error = NcclResult::kSuccess;
  return NcclResult::kSuccess;
}

NcclResult finalize(NcclComm handle) {
  MockMachine& machine = mock_machine();
  const std::lock_guard lock(machine.mutex);
  MockComm* const comm = machine.comm(handle, "ncclCommFinalize");
  if (comm == nullptr) return NcclResult::kInvalidArgument;
  machine.log(comm->device, "ncclCommFinalize");
  comm->finalized = true;
  ++comm->clique->finalized;
  return comm->blocking ? NcclResult::kSuccess : NcclResult::kInProgress;
}

NcclResult destroy(NcclComm handle) {
  MockMachine& machine = mock_machine();
  const std::lock_guard lock(machine.mutex);
  MockComm* const comm = machine.comm(handle, "ncclCommDestroy");
  if (comm == nullptr) return NcclResult::kInvalidArgument;
  machine.log(comm->device, "ncclCommDestroy");
  comm->destroyed = true;
  return NcclResult::kSuccess;
}

NcclResult abort(NcclComm handle) {
  MockMachine& machine = mock_machine();
  const std::lock_guard lock(machine.mutex);
  MockComm* const comm = reinterpret_cast<MockComm*>(handle);
  machine.log(comm->device, "ncclCommAbort");
  if (!comm->alive()) machine.misuse("ncclCommAbort: the communicator is gone");
  comm->aborted = true;
  if (machine.tells_peers && !comm->finalized)
    for (MockComm* const peer : comm->clique->members)
      if (peer != comm && peer->alive()) peer->error = NcclResult::kRemoteError;
  if (comm->finalized) ++comm->clique->finalized;
  machine.changed.notify_all();
  return NcclResult::kSuccess;
}

NcclResult create_factor(NcclOp* op, void* scalar, NcclType type, NcclResidence residence, NcclComm handle) {
  MockMachine& machine = mock_machine();
  const std::lock_guard lock(machine.mutex);
  MockComm* const comm = machine.comm(handle, "ncclRedOpCreatePreMulSum");
  if (comm == nullptr || residence != NcclResidence::kHost) return NcclResult::kInvalidArgument;
  machine.log(comm->device, "ncclRedOpCreatePreMulSum");
  double factor = 0;
  if (type == NcclType::kFloat64) std::memcpy(&factor, scalar, 8);
  float narrow = 0;
  if (type == NcclType::kFloat32) std::memcpy(&narrow, scalar, 4);
  if (type == NcclType::kFloat16) {
    Float16 half;
    std::memcpy(&half, scalar, 2);
    narrow = static_cast<float>(half);
  }
  if (type == NcclType::kBfloat16) std::memcpy(reinterpret_cast<char*>(&narrow) + 2, scalar, 2);
  *op = static_cast<NcclOp>(machine.next_factor++);
  comm->factors[static_cast<int>(*op)] = type == NcclType::kFloat64 ? factor : static_cast<double>(narrow);
  return NcclResult::kSuccess;
}

NcclResult destroy_factor(NcclOp op, NcclComm handle) {
  MockMachine& machine = mock_machine();
  const std::lock_guard lock(machine.mutex);
  MockComm* const comm = machine.comm(handle, "ncclRedOpDestroy");
  if (comm == nullptr || comm->factors.erase(static_cast<int>(op)) == 0) return NcclResult::kInvalidArgument;
  return NcclResult::kSuccess;
}

NcclResult register_buffer(NcclComm handle, void* memory, std::size_t bytes, void** registration) {
  MockMachine& machine = mock_machine();
  const std::lock_guard lock(machine.mutex);
  MockComm* const comm = machine.comm(handle, "ncclCommRegister");
  if (comm == nullptr) return NcclResult::kInvalidArgument;
  machine.log(comm->device, "ncclCommRegister", nullptr, memory);
  const auto& faults = machine.faults[static_cast<std::size_t>(comm->device)];
  if (faults.registering != NcclResult::kSuccess) return faults.registering;
  if (!machine.holds(memory, bytes, comm->device)) machine.misuse("ncclCommRegister: not this GPU's memory");
  if (!comm->registered.insert(memory).second) machine.misuse("ncclCommRegister: twice");
  *registration = memory;
  return NcclResult::kSuccess;
}

NcclResult deregister_buffer(NcclComm handle, void* registration) {
  MockMachine& machine = mock_machine();
  const std::lock_guard lock(machine.mutex);
  MockComm* const comm = machine.comm(handle, "ncclCommDeregister");
  if (comm == nullptr) return NcclResult::kInvalidArgument;
  machine.log(comm->device, "ncclCommDeregister", nullptr, registration);
  if (comm->registered.erase(registration) == 0) machine.misuse("ncclCommDeregister: what is not registered");
  return NcclResult::kSuccess;
}

const char* get_error_string(NcclResult result) {
  switch (result) {
    case NcclResult::kUnhandledCudaError: return "unhandled cuda error";
    case NcclResult::kSystemError: return "unhandled system error";
    case NcclResult::kInvalidUsage: return "invalid usage";
    case NcclResult::kRemoteError: return "remote process exited or there was a network error";
    default: return "internal error";
  }
}

}  // namespace

MockComm* MockMachine::comm(NcclComm handle, const char* what) {
  auto* const found = reinterpret_cast<MockComm*>(handle);
  const bool busy = found->joining || found->in_progress > 0;
  if (found->alive() && !busy) return found;
  misuse(fmt::format("{}: the communicator is {}", what, busy ? "in progress" : "gone"));
  return nullptr;
}

// What a thread that blocked in NCCL calls afterwards, up to its end, still finds the machine.
void MockMachine::enter() {
  struct Visit {
    MockMachine* host = nullptr;
    ~Visit() {
      if (host == nullptr) return;
      const std::lock_guard lock(host->mutex);
      --host->visitors;
      host->changed.notify_all();
    }
  };
  thread_local Visit visit;
  if (std::exchange(visit.host, this) == nullptr) ++visitors;
}

NcclResult MockMachine::join(NcclComm* handle, int size, const NcclUniqueId& id, int rank, bool blocking) {
  std::unique_lock lock(mutex);
  log(mock_device(), "join");
  auto& clique = cliques[id.bytes[0] * 128 + id.bytes[1]];
  if (clique == nullptr) clique = std::make_shared<MockClique>();
  clique->size = static_cast<std::size_t>(size);
  comms.push_back(std::make_unique<MockComm>());
  MockComm& made = *comms.back();
  made.clique = clique;
  made.rank = rank;
  made.device = mock_device();
  made.blocking = blocking;
  const auto is_there = [&](const MockComm* member) { return member->device == made.device; };
  // As NCCL does, whose ranks exchange what GPUs they have: all of them fail.
  if (!shares_gpus && std::ranges::any_of(clique->members, is_there)) clique->refusal = NcclResult::kInvalidUsage;
  const NcclResult refusal = faults[static_cast<std::size_t>(made.device)].joining;
  if (refusal != NcclResult::kSuccess) clique->refusal = refusal;
  clique->members.push_back(&made);
  if (!faults[static_cast<std::size_t>(made.device)].joins_never) ++clique->joined;
  changed.notify_all();
  if (!blocking) {
    *handle = reinterpret_cast<NcclComm>(&made);
    return NcclResult::kInProgress;
  }
  enter();
  changed.wait(lock, [&] { return ending || clique->joined == clique->size; });
  if (clique->joined != clique->size || clique->refusal != NcclResult::kSuccess) {
    made.destroyed = true;
    return clique->joined != clique->size ? NcclResult::kInternalError : clique->refusal;
  }
  made.joining = false;
  *handle = reinterpret_cast<NcclComm>(&made);
  return NcclResult::kSuccess;
}

namespace {

void add_communicator_functions(NcclApi& api) {
  api.get_version = [](int* version) {
    *version = mock_machine().version;
    return NcclResult::kSuccess;
  };
  api.get_unique_id = [](NcclUniqueId* id) {
    const std::lock_guard lock(mock_machine().mutex);
    const int number = mock_machine().next_clique++;
    *id = {};
    id->bytes[0] = static_cast<char>(number / 128);
    id->bytes[1] = static_cast<char>(number % 128);
    return NcclResult::kSuccess;
  };
  api.comm_init_rank = [](NcclComm* comm, int size, NcclUniqueId id, int rank) {
    return mock_machine().join(comm, size, id, rank, true);
  };
  api.comm_init_rank_config = init_rank_config;
  api.comm_finalize = finalize;
  api.comm_destroy = destroy;
  api.comm_abort = abort;
  api.comm_get_async_error = get_async_error;
  api.get_error_string = get_error_string;
  api.get_last_error = [](NcclComm comm) {
    const std::lock_guard lock(mock_machine().mutex);
    return reinterpret_cast<MockComm*>(comm)->error == NcclResult::kSuccess ? "" : "socket closed by peer";
  };
}

void add_collectives(NcclApi& api) {
  api.all_reduce = [](const void* in, void* out, std::size_t count, NcclType type, NcclOp op, NcclComm comm,
                      CudaStream s) {
    return launch({Kind::kAllReduce, in, out, count, type, op, 0, {}, s}, comm);
  };
  api.broadcast = [](const void* in, void* out, std::size_t count, NcclType type, int root, NcclComm comm,
                     CudaStream s) {
    return launch({Kind::kBroadcast, in, out, count, type, {}, root, {}, s}, comm);
  };
  api.reduce = [](const void* in, void* out, std::size_t count, NcclType type, NcclOp op, int root, NcclComm comm,
                  CudaStream s) {
    return launch({Kind::kReduce, in, out, count, type, op, root, {}, s}, comm);
  };
  api.all_gather = [](const void* in, void* out, std::size_t count, NcclType type, NcclComm comm, CudaStream s) {
    return launch({Kind::kAllGather, in, out, count, type, {}, 0, {}, s}, comm);
  };
  api.reduce_scatter = [](const void* in, void* out, std::size_t count, NcclType type, NcclOp op, NcclComm comm,
                          CudaStream s) {
    return launch({Kind::kReduceScatter, in, out, count, type, op, 0, {}, s}, comm);
  };
  api.send = [](const void* in, std::size_t count, NcclType type, int peer, NcclComm comm, CudaStream s) {
    return launch({Kind::kSend, in, nullptr, count, type, {}, peer, {}, s}, comm);
  };
  api.recv = [](void* out, std::size_t count, NcclType type, int peer, NcclComm comm, CudaStream s) {
    return launch({Kind::kRecv, nullptr, out, count, type, {}, peer, {}, s}, comm);
  };
}

}  // namespace

NcclApi mock_nccl_api() {
  NcclApi api;
  add_communicator_functions(api);
  add_collectives(api);
  api.group_start = [] {
    ++group.depth;
    return NcclResult::kSuccess;
  };
  api.group_end = [] { return --group.depth > 0 ? NcclResult::kSuccess : end_group(); };
  api.red_op_create_pre_mul_sum = create_factor;
  api.red_op_destroy = destroy_factor;
  api.comm_register = register_buffer;
  api.comm_deregister = deregister_buffer;
  return api;
}

}  // namespace xoe::testing

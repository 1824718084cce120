#include "core/tests/drivers/mock_machine.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "core/reduce/reduce.h"

namespace xoe::testing {
namespace {

MockMachine* the_machine = nullptr;

using Kind = MockLaunch::Kind;

DType type_of(NcclType type) {
  switch (type) {
    case NcclType::kInt8: return DType::kInt8;
    case NcclType::kUint8: return DType::kUint8;
    case NcclType::kInt32: return DType::kInt32;
    case NcclType::kInt64: return DType::kInt64;
    case NcclType::kFloat16: return DType::kFloat16;
    case NcclType::kFloat32: return DType::kFloat32;
    case NcclType::kFloat64: return DType::kFloat64;
    case NcclType::kBfloat16: return DType::kBfloat16;
  }
  return DType::kUint8;
}

ReduceOp op_of(NcclOp op) {
  switch (op) {
    case NcclOp::kProduct: return ReduceOp::kProduct;
    case NcclOp::kMax: return ReduceOp::kMax;
    case NcclOp::kMin: return ReduceOp::kMin;
    case NcclOp::kAverage: return ReduceOp::kAverage;
    default: return ReduceOp::kSum;  // of factors too
  }
}

using Launches = std::vector<const MockLaunch*>;

// Elements [first, first + count) of all members, into the outs of `to`.
void reduce(const Launches& all, const std::vector<void*>& to, std::size_t first, std::size_t count) {
  const DType dtype = type_of(all.front()->type);
  const std::size_t width = dtype_size(dtype);
  std::vector<const void*> ins;
  std::vector<std::vector<std::byte>> scaled;
  for (const MockLaunch* launch : all) {
    const auto* const in = static_cast<const std::byte*>(launch->in) + first * width;
    ins.push_back(in);
    if (launch->factor == 1) continue;
    scaled.emplace_back(in, in + count * width);
    reduce::scale(scaled.back().data(), count, dtype, launch->factor);
  }
  if (!scaled.empty())
    for (std::size_t m = 0; m < ins.size(); ++m) ins[m] = scaled[m].data();
  std::vector<std::byte> result(count * width);
  void* const outs[] = {result.data()};
  reduce::reduce_into(outs, ins, count, dtype, op_of(all.front()->op));
  for (void* const out : to) std::memcpy(out, result.data(), result.size());
}

void perform(const Launches& all) {
  const MockLaunch& first = *all.front();
  const std::size_t bytes = first.count * dtype_size(type_of(first.type));
  std::vector<void*> outs;
  for (const MockLaunch* launch : all) outs.push_back(launch->out);
  const auto root = static_cast<std::size_t>(first.peer);
  switch (first.kind) {
    case Kind::kAllReduce: return reduce(all, outs, 0, first.count);
    case Kind::kReduce: return reduce(all, {outs[root]}, 0, first.count);
    case Kind::kReduceScatter:
      for (std::size_t m = 0; m < all.size(); ++m) reduce(all, {outs[m]}, m * first.count, first.count);
      return;
    case Kind::kBroadcast:
      for (void* const out : outs) std::memmove(out, all[root]->in, bytes);
      return;
    case Kind::kAllGather:
      for (void* const out : outs)
        for (std::size_t m = 0; m < all.size(); ++m)
          std::memmove(static_cast<std::byte*>(out) + m * bytes, all[m]->in, bytes);
      return;
    default: return;
  }
}

// Others wait for ever, as they do with NCCL.
bool fit(const Launches& all) {
  return std::ranges::all_of(all, [&](const MockLaunch* l) {
    return l->kind == all[0]->kind && l->count == all[0]->count && l->type == all[0]->type && l->peer == all[0]->peer &&
           l->factor == all[0]->factor && (l->factor != 1 || l->op == all[0]->op);
  });
}

}  // namespace

MockMachine& mock_machine() { return *the_machine; }

MockMachine::MockMachine(int devices, int nccl_version)
    : faults(static_cast<std::size_t>(devices)), device_count(devices), version(nccl_version) {
  the_machine = this;
  mock_nvml().processes.assign(static_cast<std::size_t>(devices), {});
  mock_nvml().sessions = 0;
}

MockMachine::~MockMachine() {
  {
    std::unique_lock lock(mutex);
    ending = true;
    changed.notify_all();
    changed.wait(lock, [&] { return visitors == 0; });
  }
  for (const auto& stream : streams)
    if (stream->thread.joinable()) stream->thread.join();
  the_machine = nullptr;
}

NcclApi MockMachine::nccl_api() const {
  NcclApi api = mock_nccl_api();
  for_each_nccl_function(api, [&](auto& function, const char*, int since) {
    if (version < since) function = nullptr;
  });
  return api;
}

std::vector<MockCall> MockMachine::calls_of(int device) {
  const std::lock_guard lock(mutex);
  std::vector<MockCall> found;
  std::ranges::copy_if(calls_, std::back_inserter(found), [&](const MockCall& call) { return call.device == device; });
  return found;
}

std::size_t MockMachine::count(int device, const std::string& name) {
  const auto calls = calls_of(device);
  return static_cast<std::size_t>(std::ranges::count(calls, name, &MockCall::name));
}

std::vector<std::string> MockMachine::misuses() {
  const std::lock_guard lock(mutex);
  return misuses_;
}

std::string MockMachine::leaks() {
  const std::lock_guard lock(mutex);
  std::string text;
  const auto add = [&](std::size_t n, const char* what) {
    if (n != 0) text += fmt::format("{} {} ", n, what);
  };
  const auto is_own = [&](const auto& s) {
    const auto is_default = [&](const auto& entry) { return entry.second == s.get(); };
    return s->alive && std::ranges::none_of(default_streams_, is_default);
  };
  add(static_cast<std::size_t>(std::ranges::count_if(streams, is_own)), "streams");
  add(static_cast<std::size_t>(std::ranges::count_if(events, [](const auto& e) { return e->alive; })), "events");
  add(allocations.size(), "allocations");
  add(static_cast<std::size_t>(std::ranges::count_if(comms, [](const auto& c) { return c->alive(); })),
      "communicators");
  for (const auto& comm : comms) {
    if (comm->aborted) continue;  // takes them with it
    add(comm->factors.size(), "operators");
    add(comm->registered.size(), "registrations");
  }
  add(static_cast<std::size_t>(mock_nvml().sessions), "NVML sessions");
  return text;
}

void MockMachine::fail(int device, NcclResult error) {
  const std::lock_guard lock(mutex);
  for (const auto& comm : comms)
    if (comm->alive() && comm->device == device) comm->error = error;
}

void MockMachine::log(int device, const char* name, const void* stream, const void* object) {
  calls_.push_back({device, name, stream, object});
}

// --- streams ---

MockStream& MockMachine::stream(CudaStream handle) {
  if (handle != nullptr) return *reinterpret_cast<MockStream*>(handle);
  MockStream*& found = default_streams_[mock_device()];
  if (found == nullptr) {
    streams.push_back(std::make_unique<MockStream>());
    found = streams.back().get();
    found->device = mock_device();
  }
  return *found;
}

void MockMachine::enqueue(CudaStream handle, std::function<void()> task) {
  MockStream& to = stream(handle);
  if (!to.alive) return misuse("work for a stream that was destroyed");
  to.work.push_back(std::move(task));
  if (!to.thread.joinable()) to.thread = std::thread([this, &to] { work(to); });
  changed.notify_all();
}

void MockMachine::work(MockStream& own) {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return ending || own.closing || !own.work.empty(); });
    if (ending || own.work.empty()) return;
    const auto task = std::move(own.work.front());
    own.work.pop_front();
    own.busy = true;
    lock.unlock();
    task();
    lock.lock();
    own.busy = false;
    changed.notify_all();
  }
}

// --- memory ---

std::map<std::uintptr_t, MockMachine::Allocation>::iterator MockMachine::find(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  auto found = allocations.upper_bound(at);
  if (found == allocations.begin()) return allocations.end();
  --found;
  return at < found->first + found->second.bytes ? found : allocations.end();
}

bool MockMachine::holds(const void* address, std::size_t bytes, int device) {
  const auto found = find(address);
  return found != allocations.end() && !found->second.host && found->second.device == device &&
         reinterpret_cast<std::uintptr_t>(address) + bytes <= found->first + found->second.bytes;
}

// --- collectives ---

void MockMachine::run(const std::vector<MockLaunch>& group) {
  std::unique_lock lock(mutex);
  std::vector<std::shared_ptr<MockMessage>> sent;
  MockComm& own = *group.front().comm;
  MockClique& clique = *own.clique;
  const auto over = [&] { return ending || own.aborted; };
  if (faults[static_cast<std::size_t>(own.device)].stays_away) return changed.wait(lock, over);
  for (const MockLaunch& l : group)
    if (l.kind == Kind::kSend) {
      sent.push_back(std::make_shared<MockMessage>(MockMessage{l.in, l.count * dtype_size(type_of(l.type))}));
      clique.mail[{own.rank, l.peer}].push_back(sent.back());
    }
  changed.notify_all();
  for (const MockLaunch& l : group) {
    if (l.kind == Kind::kSend) continue;
    if (l.kind != Kind::kRecv) {
      meet(l, lock);
      continue;
    }
    auto& box = clique.mail[{l.peer, own.rank}];
    changed.wait(lock, [&] { return over() || !box.empty(); });
    if (over()) break;
    const auto message = box.front();
    box.pop_front();
    if (message->bytes != l.count * dtype_size(type_of(l.type)))
      misuse("a message of another length than expected");
    else
      std::memcpy(l.out, message->data, message->bytes);
    message->taken = true;
    changed.notify_all();
  }
  changed.wait(lock, [&] { return over() || std::ranges::all_of(sent, [](const auto& m) { return m->taken; }); });
  for (const auto& message : sent)  // what was not taken is gone with its sender
    for (auto& box : clique.mail) std::erase(box.second, message);
}

void MockMachine::meet(const MockLaunch& launch, std::unique_lock<std::mutex>& lock) {
  MockComm& own = *launch.comm;
  MockClique::Meeting& meeting = own.clique->meetings[launch.number];
  meeting.launches.resize(own.clique->size);
  meeting.launches[static_cast<std::size_t>(own.rank)] = &launch;
  if (++meeting.arrived == own.clique->size && fit(meeting.launches)) {
    perform(meeting.launches);
    meeting.done = true;
    changed.notify_all();
  }
  changed.wait(lock, [&] { return ending || own.aborted || meeting.done; });
  if (meeting.done) return;
  --meeting.arrived;
  meeting.launches[static_cast<std::size_t>(own.rank)] = nullptr;
}

}  // namespace xoe::testing

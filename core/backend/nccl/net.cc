#include "core/backend/nccl/net.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/backend/nccl/backoff.h"
#include "core/backend/net/buffers.h"
#include "core/base/error.h"
#include "core/reduce/reduce.h"

namespace xoe::nccl {
namespace {

// An aborted collective may use its buffers for so long.
constexpr std::chrono::seconds kDrainTimeout(2);

std::size_t bytes(const Collective& c, std::size_t count) noexcept { return count * dtype_size(c.dtype); }

bool is_ok(NcclResult result) noexcept { return result == NcclResult::kSuccess || result == NcclResult::kInProgress; }

// Calls body(address, "in" or "out") -> Status for every buffer.
template <class Body>
Status each_buffer(const Collective& c, Body&& body) {
  const auto visit = [&](const void* address, std::size_t count, std::string_view which) -> Status {
    return count == 0 || address == nullptr ? Status() : body(address, which);
  };
  for (const Segment& segment : c.segments) {
    XOE_TRY(visit(segment.in, segment.count, "in"));
    XOE_TRY(visit(segment.out, segment.count, "out"));
  }
  if (!c.segments.empty()) return {};
  XOE_TRY(visit(c.in, c.in_count, "in"));
  return visit(c.out, c.out_count, "out");
}

// Calls body(in, out, count) -> NcclResult for every array.
template <class Buffers, class Body>
NcclResult each_part(const Collective& c, const Buffers& b, Body&& body) {
  if (c.segments.empty()) return c.in_count == 0 ? NcclResult::kSuccess : body(b.in, b.out, c.in_count);
  for (const Segment& segment : c.segments) {
    if (segment.count == 0) continue;
    const NcclResult result = body(segment.in, segment.out, segment.count);
    if (!is_ok(result)) return result;
  }
  return NcclResult::kSuccess;
}

bool all_equal(std::span<const std::size_t> counts) {
  return std::ranges::all_of(counts, [&](std::size_t count) { return count == counts.front(); });
}

}  // namespace

NcclNet::NcclNet(NetParts parts) : parts_(std::move(parts)), placeholders_(parts_.libraries, parts_.device.index) {
  if (parts_.registers) registrations_.emplace(parts_.libraries, *parts_.comm);
}

NcclNet::~NcclNet() {
  const DeviceScope scope(*parts_.libraries, parts_.device.index);
  registrations_.reset();
}

Status NcclNet::supports(const Collective& c) const {
  if (c.kind == CollectiveKind::kBarrier) return {};
  const bool lists = c.kind == CollectiveKind::kAllreduce || c.kind == CollectiveKind::kBroadcast;
  if (!c.segments.empty() && !(lists && c.device))
    return failure(Code::kUnsupported, "nccl: {} does not accept a list of arrays{}; call it for each",
                   collective_name(c.kind), c.device ? "" : " of host memory");
  if (is_reduction(c.kind)) {
    if (!c.device)
      return failure(Code::kUnsupported, "nccl: {} of host memory; pass GPU memory, or choose gloo or mpi",
                     collective_name(c.kind));
    const auto plan =
        plan_reduction(c, static_cast<int>(size()), parts_.libraries->features, parts_.libraries->nccl_version);
    return plan ? Status() : Status(failure(plan.error()));
  }
  if (c.prescale != 1) return failure(Code::kUnsupported, "nccl: only sum and average accept a factor");
  if (c.device) return {};
  const std::size_t limit = parts_.stream->staging_bytes();
  if (bytes(c, c.in_count) <= limit && bytes(c, c.out_count) <= limit) return {};
  return failure(Code::kUnsupported,
                 "nccl: {} of {} bytes of host memory (at most {}); pass GPU memory, or choose gloo or mpi",
                 collective_name(c.kind), bytes(c, std::max(c.in_count, c.out_count)), limit);
}

Status NcclNet::run(const Collective& c, Clock::time_point deadline) {
  if (cause_) return failure(*cause_);
  XOE_TRY(supports(c));
  const DeviceScope scope(*parts_.libraries, parts_.device.index);
  Status status;
  if (parts_.comm->stopped()) {
    status = failure(Code::kUnavailable, "aborted");
  } else if (c.kind == CollectiveKind::kBarrier) {
    status = barrier(deadline);
  } else if (c.device) {
    XOE_TRY(check_memory(c));
    if (!c.by_marks) XOE_TRY(check_not_capturing(parts_.libraries->cuda, static_cast<CudaStream>(c.stream)));
    status = run_on_gpu(c, deadline);
  } else {
    status = run_through_staging(c, deadline);
  }
  return status ? status : abort_collective(c, status.error());
}

Status NcclNet::check_memory(const Collective& c) const {
  return each_buffer(c, [&](const void* address, std::string_view which) {
    return check_memory_of(parts_.libraries->cuda, parts_.device, address,
                           fmt::format("{}: `{}`", collective_name(c.kind), which));
  });
}

Status NcclNet::run_on_gpu(const Collective& given, Clock::time_point deadline) {
  GpuStream& own = *parts_.stream;
  const auto stream = static_cast<CudaStream>(given.stream);
  if (registrations_)
    (void)each_buffer(given, [&](const void* address, std::string_view) {
      registrations_->ensure_registered(address, deadline);
      return Status();
    });
  if (!given.by_marks) XOE_TRY(own.wait_for_stream(stream));
  for (const void* mark : given.after) XOE_TRY(own.wait_for_event(mark));
  std::vector<Segment> segments;
  XOE_ASSIGN(const Collective c, placeholders_.substitute(given, segments, own.handle()));
  XOE_TRY(launch(c, {c.in, c.out}, deadline));
  // A caller that passed events has continued with its stream: its later work must not wait for this collective.
  XOE_TRY(given.by_marks ? own.record_done() : own.make_wait(stream));
  if (given.listener != nullptr) {
    XOE_ASSIGN(auto event, record_event(parts_.libraries, parts_.device.index, own.handle()));
    given.listener->launched(std::move(event));
  }
  return wait_done(deadline);
}

Status NcclNet::run_through_staging(const Collective& c, Clock::time_point deadline) {
  GpuStream& own = *parts_.stream;
  const std::size_t in = bytes(c, c.in_count), out = bytes(c, c.out_count);
  if (in != 0) {
    std::memcpy(own.host_in(), c.in, in);
    XOE_TRY(own.copy_in(in));
  }
  XOE_TRY(launch(c, {own.device_in(), own.device_out()}, deadline));
  if (out != 0) XOE_TRY(own.copy_out(out));
  XOE_TRY(own.record_done());
  XOE_TRY(wait_done(deadline));
  if (out != 0) std::memcpy(c.out, own.host_out(), out);
  return {};
}

// An allreduce of one byte.
Status NcclNet::barrier(Clock::time_point deadline) {
  GpuStream& own = *parts_.stream;
  XOE_TRY(parts_.comm->launch(deadline, [&](NcclComm comm) {
    return parts_.libraries->nccl.all_reduce(own.device_in(), own.device_out(), 1, NcclType::kUint8, NcclOp::kMax, comm,
                                             own.handle());
  }));
  XOE_TRY(own.record_done());
  return wait_done(deadline);
}

Status NcclNet::launch(const Collective& c, const Buffers& b, Clock::time_point deadline) {
  if (is_reduction(c.kind)) return launch_reduction(c, b, deadline);
  if (c.kind == CollectiveKind::kAlltoall) {
    const std::size_t own = bytes(c, std::min(c.send_counts[self()], c.recv_counts[self()]));
    const auto* const from =
        static_cast<const std::byte*>(b.in) + bytes(c, net::sum_before(c.send_counts, parts_.members.self));
    auto* const to = static_cast<std::byte*>(b.out) + bytes(c, net::sum_before(c.recv_counts, parts_.members.self));
    if (own != 0)
      XOE_CUDA(parts_.libraries->cuda, memcpy_async, to, from, own, CudaCopy::kDefault, parts_.stream->handle());
  }
  return parts_.comm->launch(deadline, [&](NcclComm comm) { return move(c, b, comm); });
}

Status NcclNet::launch_reduction(const Collective& c, const Buffers& b, Clock::time_point deadline) {
  const NcclApi& nccl = parts_.libraries->nccl;
  XOE_ASSIGN(const Reduction plan,
             plan_reduction(c, static_cast<int>(size()), parts_.libraries->features, parts_.libraries->nccl_version));
  NcclOp op = plan.op;
  if (plan.scaled) {
    alignas(double) std::byte factor[sizeof(double)];
    if (c.dtype == DType::kFloat64)
      std::memcpy(factor, &plan.factor, sizeof plan.factor);
    else
      reduce::cast(&plan.factor, DType::kFloat64, factor, c.dtype, 1);
    XOE_TRY(parts_.comm->call(deadline, [&](NcclComm comm) {
      return nccl.red_op_create_pre_mul_sum(&op, factor, plan.type, NcclResidence::kHost, comm);
    }));
  }
  XOE_TRY(parts_.comm->launch(deadline, [&](NcclComm comm) { return reduce(c, b, plan.type, op, comm); }));
  if (!plan.scaled) return {};
  // NCCL allows this as soon as the calls with this operator have been enqueued.
  return parts_.comm->call(deadline, [&](NcclComm comm) { return nccl.red_op_destroy(op, comm); });
}

// Collectives that copy bytes of any type.
NcclResult NcclNet::move(const Collective& c, const Buffers& b, NcclComm comm) const {
  if (c.kind == CollectiveKind::kAllgather) return gather(c, b, comm);
  if (c.kind == CollectiveKind::kAlltoall) return exchange(c, b, comm);
  const bool is_root = c.root == parts_.members.self;
  return each_part(c, b, [&](const void* in, void* out, std::size_t count) {
    return parts_.libraries->nccl.broadcast(is_root ? in : out, out, bytes(c, count), NcclType::kUint8, c.root, comm,
                                            parts_.stream->handle());
  });
}

NcclResult NcclNet::gather(const Collective& c, const Buffers& b, NcclComm comm) const {
  const NcclApi& nccl = parts_.libraries->nccl;
  if (c.out_count == 0) return NcclResult::kSuccess;
  if (all_equal(c.send_counts))
    return nccl.all_gather(b.in, b.out, bytes(c, c.in_count), NcclType::kUint8, comm, parts_.stream->handle());
  auto* out = static_cast<std::byte*>(b.out);
  for (std::size_t m = 0; m < size(); ++m) {
    const std::size_t part = bytes(c, c.send_counts[m]);
    if (part == 0) continue;
    const NcclResult result = nccl.broadcast(m == self() ? b.in : out, out, part, NcclType::kUint8, static_cast<int>(m),
                                             comm, parts_.stream->handle());
    if (!is_ok(result)) return result;
    out += part;
  }
  return NcclResult::kSuccess;
}

NcclResult NcclNet::exchange(const Collective& c, const Buffers& b, NcclComm comm) const {
  const NcclApi& nccl = parts_.libraries->nccl;
  const auto* in = static_cast<const std::byte*>(b.in);
  auto* out = static_cast<std::byte*>(b.out);
  for (std::size_t m = 0; m < size(); ++m) {
    const std::size_t sent = bytes(c, c.send_counts[m]), received = bytes(c, c.recv_counts[m]);
    NcclResult result = NcclResult::kSuccess;
    const auto peer = static_cast<int>(m);
    if (m != self() && sent != 0) result = nccl.send(in, sent, NcclType::kUint8, peer, comm, parts_.stream->handle());
    if (m != self() && received != 0 && is_ok(result))
      result = nccl.recv(out, received, NcclType::kUint8, peer, comm, parts_.stream->handle());
    if (!is_ok(result)) return result;
    in += sent;
    out += received;
  }
  return NcclResult::kSuccess;
}

NcclResult NcclNet::reduce(const Collective& c, const Buffers& b, NcclType type, NcclOp op, NcclComm comm) const {
  const NcclApi& nccl = parts_.libraries->nccl;
  const CudaStream stream = parts_.stream->handle();
  if (c.kind == CollectiveKind::kAllreduce)
    return each_part(c, b, [&](const void* in, void* out, std::size_t count) {
      return nccl.all_reduce(in, out, count, type, op, comm, stream);
    });
  if (c.in_count == 0) return NcclResult::kSuccess;
  if (all_equal(c.send_counts)) return nccl.reduce_scatter(b.in, b.out, c.out_count, type, op, comm, stream);
  const auto* in = static_cast<const std::byte*>(b.in);
  for (std::size_t m = 0; m < size(); ++m) {
    const std::size_t count = c.send_counts[m];
    if (count == 0) continue;
    const NcclResult result =
        nccl.reduce(in, m == self() ? b.out : nullptr, count, type, op, static_cast<int>(m), comm, stream);
    if (!is_ok(result)) return result;
    in += bytes(c, count);
  }
  return NcclResult::kSuccess;
}

// An error that ends the kernels appears in the communicator, not in the event.
Status NcclNet::wait_done(Clock::time_point deadline) {
  const GpuStream& own = *parts_.stream;
  for (Backoff backoff;; backoff()) {
    const CudaError state = own.query_done();
    if (state == CudaError::kSuccess) return parts_.comm->async_error();
    if (state != CudaError::kNotReady) return cuda_status(parts_.libraries->cuda, state, "event_query");
    if (parts_.comm->stopped()) return failure(Code::kUnavailable, "aborted");
    if (!backoff.is_slow()) continue;
    XOE_TRY(parts_.comm->async_error());
    if (Clock::now() >= deadline) return failure(Code::kTimeout, "not done at the deadline");
  }
}

std::string NcclNet::other_members() const {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> names;
  for (std::size_t m = 0; m < size(); ++m)
    if (m != self()) names.push_back(parts_.names[m]);
  if (names.size() == 1) return names.front();
  const std::size_t shown = std::min(kShown, names.size());
  return fmt::format("one of {}{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                     names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : "");
}

Status NcclNet::abort_collective(const Collective& c, const Error& error) {
  const auto name = c.options.name;
  std::string text =
      fmt::format("{}{}: {}", collective_name(c.kind), name.empty() ? "" : fmt::format(" ({})", name), error.message());
  if (size() > 1 && error.code() == Code::kPeerLost) text += fmt::format("; lost: {}", other_members());
  if (size() > 1 && error.code() == Code::kTimeout) text += fmt::format("; missing: {}", other_members());
  cause_ = Error(error.code(), std::move(text));
  (void)parts_.stream->record_done();
  parts_.comm->abort();
  const Clock::time_point end = Clock::now() + kDrainTimeout;
  for (Backoff backoff; parts_.stream->query_done() == CudaError::kNotReady && Clock::now() < end;) backoff();
  return failure(*cause_);
}

}  // namespace xoe::nccl

#include "xoe/communicator.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <new>
#include <numeric>

#include "core/backend/backend.h"
#include "core/base/error.h"
#include "core/comm/check.h"
#include "core/comm/tell_of_loss.h"

namespace xoe {
namespace {

std::vector<std::size_t> equal_counts(std::size_t count, int size) {
  return std::vector<std::size_t>(index(size), count);
}

// The launcher learns of a loss before the program does, which may end at once.
Status told(Backend& backend, Status status) {
  if (!status) [[unlikely]]
    tell_of_loss(backend, status.error());
  return status;
}

}  // namespace

Communicator::Communicator(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

const Topology& Communicator::topology() const noexcept { return backend_->topology(); }
std::string_view Communicator::backend_name() const noexcept { return backend_->name(); }

bool Communicator::run_small(const ReduceCall& call, const OpOptions& options, Status& status) {
  if (!options.name.empty() || options.timeout || !backend_->run_small(call, status)) return false;
  status = told(*backend_, std::move(status));
  return true;
}

Status Communicator::run(const Collective& collective) {
  XOE_TRY(check_collective(collective, topology()));
  XOE_TRY(backend_->supports(collective));
  return told(*backend_, backend_->run(collective));
}

Result<Handle> Communicator::start(const Collective& collective) {
  XOE_TRY(check_collective(collective, topology()));
  XOE_TRY(backend_->supports(collective));
  XOE_ASSIGN(auto work, backend_->start(collective));
  return Handle(std::move(work));
}

Status Communicator::allreduce(ConstTensor in, Tensor out, ReduceOp op, OpOptions options) {
  Status status;
  if (in.dtype == out.dtype && in.count == out.count &&
      run_small({in.data, out.data, in.count, in.dtype, op}, options, status))
    return status;
  XOE_TRY(check_pair("allreduce", in, out));
  return run(make_allreduce(in, out, op, options));
}

Status Communicator::allreduce(Tensor inout, ReduceOp op, OpOptions options) {
  Status status;
  if (run_small({inout.data, inout.data, inout.count, inout.dtype, op}, options, status)) return status;
  return run(make_allreduce(inout, inout, op, options));
}

Result<Handle> Communicator::start_allreduce(ConstTensor in, Tensor out, ReduceOp op, OpOptions options) {
  XOE_TRY(check_pair("allreduce", in, out));
  return start(make_allreduce(in, out, op, options));
}

Result<Handle> Communicator::start_allreduce(std::span<const Segment> segments, DType dtype, ReduceOp op,
                                             OpOptions options) {
  XOE_ASSIGN(const Collective collective, make_checked_segments(segments, dtype, op, options));
  XOE_TRY(backend_->supports(collective));
  XOE_ASSIGN(auto work, backend_->start(collective));
  return Handle(std::move(work));
}

Status Communicator::broadcast(Tensor data, int root, OpOptions options) {
  return run(make_broadcast(data, root, options));
}

Result<Handle> Communicator::start_broadcast(Tensor data, int root, OpOptions options) {
  return start(make_broadcast(data, root, options));
}

Status Communicator::allgather(ConstTensor in, Tensor out, std::span<const std::size_t> counts, OpOptions options) {
  XOE_TRY(check_pair("allgather", in, out));
  return run(make_allgather(in, out, counts, options));
}

Status Communicator::allgather(ConstTensor in, Tensor out, OpOptions options) {
  const auto counts = equal_counts(in.count, size());
  return allgather(in, out, counts, options);
}

Result<Handle> Communicator::start_allgather(ConstTensor in, Tensor out, std::span<const std::size_t> counts,
                                             OpOptions options) {
  XOE_TRY(check_pair("allgather", in, out));
  return start(make_allgather(in, out, counts, options));
}

Result<Gathered> Communicator::allgather(ConstTensor in, OpOptions options) {
  // Errors that only this rank can see are reported before the peers take part.
  const std::size_t element = dtype_size(in.dtype);
  if (in.data == nullptr && in.count != 0)
    return failure(Code::kInvalidArgument, "allgather: `in` has {} elements and no memory", in.count);
  if (in.count > std::numeric_limits<std::ptrdiff_t>::max() / element)
    return failure(Code::kInvalidArgument, "allgather: `in` has {} elements, more than memory can hold", in.count);
  Gathered gathered;
  gathered.counts.resize(index(size()));
  const std::uint64_t mine = in.count;
  std::vector<std::uint64_t> counts(gathered.counts.size());
  const auto as_int64 = [](std::uint64_t* data, std::size_t n) { return Tensor(data, n, DType::kInt64); };
  XOE_TRY(allgather(ConstTensor(&mine, 1, DType::kInt64), as_int64(counts.data(), counts.size()), options));
  std::copy(counts.begin(), counts.end(), gathered.counts.begin());
  XOE_ASSIGN(const std::size_t total, sum_counts("allgather", gathered.counts));
  // The total is the same on all ranks, so that all of them fail here.
  if (total > std::numeric_limits<std::ptrdiff_t>::max() / element)
    return failure(Code::kInvalidArgument, "allgather: all ranks' {} elements are more than memory can hold", total);
  try {
    gathered.data.resize(total * element);
  } catch (const std::bad_alloc&) {
    return failure(Code::kResourceExhausted, "allgather: no memory for the {} elements of all ranks", total);
  }
  XOE_TRY(allgather(in, Tensor(gathered.data.data(), total, in.dtype), gathered.counts, options));
  return gathered;
}

Status Communicator::reduce_scatter(ConstTensor in, Tensor out, std::span<const std::size_t> counts, ReduceOp op,
                                    OpOptions options) {
  XOE_TRY(check_pair("reduce_scatter", in, out));
  return run(make_reduce_scatter(in, out, counts, op, options));
}

Result<Handle> Communicator::start_reduce_scatter(ConstTensor in, Tensor out, std::span<const std::size_t> counts,
                                                  ReduceOp op, OpOptions options) {
  XOE_TRY(check_pair("reduce_scatter", in, out));
  return start(make_reduce_scatter(in, out, counts, op, options));
}

Status Communicator::alltoall(ConstTensor in, std::span<const std::size_t> send_counts, Tensor out,
                              std::span<const std::size_t> recv_counts, OpOptions options) {
  XOE_TRY(check_pair("alltoall", in, out));
  return run(make_alltoall(in, send_counts, out, recv_counts, options));
}

Result<Handle> Communicator::start_alltoall(ConstTensor in, std::span<const std::size_t> send_counts, Tensor out,
                                            std::span<const std::size_t> recv_counts, OpOptions options) {
  XOE_TRY(check_pair("alltoall", in, out));
  return start(make_alltoall(in, send_counts, out, recv_counts, options));
}

Result<std::vector<std::size_t>> Communicator::alltoall_counts(std::span<const std::size_t> send_counts,
                                                               OpOptions options) {
  std::vector<std::size_t> received(index(size()));
  const auto ones = equal_counts(1, size());
  XOE_TRY(alltoall(ConstTensor(send_counts.data(), send_counts.size(), DType::kInt64), ones,
                   Tensor(received.data(), received.size(), DType::kInt64), ones, options));
  return received;
}

Status Communicator::barrier(OpOptions options) { return run({.kind = CollectiveKind::kBarrier, .options = options}); }

Status Communicator::progress() { return told(*backend_, backend_->progress()); }

Result<std::optional<Communicator>> Communicator::split(int color, int key) {
  XOE_ASSIGN(auto backend, backend_->split(color, key));
  if (!backend) return std::optional<Communicator>();
  return std::optional<Communicator>(Communicator(std::move(backend)));
}

Result<SharedBuffer> Communicator::shared_buffer(std::size_t bytes) { return backend_->shared_buffer(bytes); }

Result<std::vector<std::byte*>> Communicator::map_peers(const SharedBuffer& mine, OpOptions options) {
  return backend_->map_peers(mine, options);
}

}  // namespace xoe

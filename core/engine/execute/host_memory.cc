#include "core/engine/execute/host_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/error.h"
#include "core/reduce/neutral.h"
#include "core/reduce/reduce.h"

namespace xoe::engine {
namespace {

constexpr std::size_t kSmallestBuffer = std::size_t{64} << 10;

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0 && to != from) std::memmove(to, from, bytes);
}

// Can the collective work on the caller's own memory?
bool in_place(const Batch& batch) {
  if (batch.wire != batch.op.dtype || (batch.op.kind == OpKind::kBroadcast && batch.slices.size() != 1)) return false;
  return std::all_of(batch.slices.begin(), batch.slices.end(), [](const TensorSlice& slice) {
    return !slice.operation().placeholder && slice.operation().op.prescale == 1;
  });
}

}  // namespace

void pack_tensor(std::byte* to, DType wire, const TensorCopy& tensor, double scale) {
  if (wire == tensor.dtype)
    copy_bytes(to, tensor.in, tensor.bytes());
  else
    reduce::cast(tensor.in, tensor.dtype, to, wire, tensor.count);
  if (scale != 1) reduce::scale(to, tensor.count, wire, scale);
}

void unpack_tensor(const std::byte* from, DType wire, const TensorCopy& tensor, double scale) {
  if (wire == tensor.dtype)
    copy_bytes(tensor.out, from, tensor.bytes());
  else
    reduce::cast(from, wire, tensor.out, tensor.dtype, tensor.count);
  if (scale != 1) reduce::scale(tensor.out, tensor.count, tensor.dtype, scale);
}

Task HostMemory::connect(const Batch&) { co_return Status(); }

bool HostMemory::packs(const Batch& batch) const { return !in_place(batch); }

Task HostMemory::run_fused(Batch& batch) { return in_place(batch) ? run_in_place(batch) : run_packed(batch); }

Result<Handle> HostMemory::start_in_place(const Batch& batch) {
  const TensorCopy& t = batch.slices.front().copy();
  const Tensor out(t.out, t.count, t.dtype);
  if (batch.op.kind == OpKind::kBroadcast) {
    if (comm_.rank() == batch.op.root) copy_bytes(t.out, t.in, t.bytes());
    return comm_.start_broadcast(out, batch.op.root, options_of(batch));
  }
  if (batch.slices.size() == 1)
    return comm_.start_allreduce(ConstTensor(t.in, t.count, t.dtype), out, batch.op.reduce, options_of(batch));
  // The communicator stages of each tensor only the part that its peers need.
  std::vector<Segment> segments;
  segments.reserve(batch.slices.size());
  for (const TensorSlice& slice : batch.slices)
    segments.push_back({slice.copy().in, slice.copy().out, slice.copy().count});
  return comm_.start_allreduce(segments, batch.op.dtype, batch.op.reduce, options_of(batch));
}

Task HostMemory::run_in_place(Batch& batch) {
  auto started = start_in_place(batch);
  batch.may_follow = true;
  XOE_CO_TRY(std::move(started));
  batch.note_reduced(/*unpacks=*/false);
  for (const TensorSlice& slice : batch.slices) {
    const TensorCopy& t = slice.copy();
    scale_result(slice.operation(), Tensor(t.out, t.count, t.dtype));
  }
  co_return Status();
}

Task HostMemory::run_packed(Batch& batch) {
  const std::size_t element = dtype_size(batch.wire);
  auto buffer = take_buffer(batch.bytes);
  if (!buffer) co_return failure(std::move(buffer).error());
  const bool sends = batch.op.kind != OpKind::kBroadcast || comm_.rank() == batch.op.root;
  std::byte* at = buffer->data();
  for (const TensorSlice& slice : batch.slices) {
    if (slice.operation().placeholder)
      reduce::fill_neutral(at, slice.count(), batch.wire, batch.op.reduce);
    else if (sends)
      pack_tensor(at, batch.wire, slice.copy(), slice.operation().op.prescale);
    at += slice.count() * element;
  }
  batch.note_packed();
  const Tensor whole(buffer->data(), batch.bytes / element, batch.wire);
  auto started = batch.op.kind == OpKind::kBroadcast
                     ? comm_.start_broadcast(whole, batch.op.root, options_of(batch))
                     : comm_.start_allreduce(whole, whole, batch.op.reduce, options_of(batch));
  batch.may_follow = true;
  XOE_CO_TRY(std::move(started));
  batch.note_reduced(/*unpacks=*/true);
  at = buffer->data();
  for (const TensorSlice& slice : batch.slices) {
    if (!slice.operation().placeholder) unpack_tensor(at, batch.wire, slice.copy(), slice.operation().op.postscale);
    at += slice.count() * element;
  }
  free_buffers_.push_back(std::move(*buffer));
  co_return Status();
}

Result<SharedBuffer> HostMemory::take_buffer(std::size_t bytes) {
  const auto fits = std::find_if(free_buffers_.begin(), free_buffers_.end(),
                                 [&](const SharedBuffer& buffer) { return buffer.bytes() >= bytes; });
  if (fits != free_buffers_.end()) {
    SharedBuffer buffer = std::move(*fits);
    free_buffers_.erase(fits);
    return buffer;
  }
  if (!free_buffers_.empty()) free_buffers_.pop_back();  // too small: a larger one takes its place
  return comm_.shared_buffer(std::bit_ceil(std::max(bytes, kSmallestBuffer)));
}

Task HostMemory::run(Batch&, const SubmittedOperation&, const Collective& collective) {
  XOE_CO_TRY(comm_.start(collective));
  co_return Status();
}

const std::byte* HostMemory::reduction_input(const SubmittedOperation& operation, std::size_t tensor,
                                             std::vector<std::byte>& scratch) const {
  const OpDescriptor& op = operation.op;
  const std::size_t count = operation.sizes[tensor].count;
  const auto dtype = static_cast<DType>(operation.sizes[tensor].dtype);
  if (!operation.placeholder && op.prescale == 1) return operation.tensors[tensor].in;
  scratch.resize(count * dtype_size(dtype));
  if (operation.placeholder)
    reduce::fill_neutral(scratch.data(), count, dtype, op.reduce);
  else
    pack_tensor(scratch.data(), dtype, operation.tensors[tensor], op.prescale);
  return scratch.data();
}

std::byte* HostMemory::discarded_output(std::size_t bytes, std::vector<std::byte>& scratch) const {
  scratch.resize(bytes);
  return scratch.data();
}

void HostMemory::scale_result(const SubmittedOperation& operation, const Tensor& result) const {
  if (!operation.placeholder && operation.op.postscale != 1)
    reduce::scale(result.data, result.count, result.dtype, operation.op.postscale);
}

}  // namespace xoe::engine

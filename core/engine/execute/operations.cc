#include "core/engine/execute/operations.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/backend/collective.h"
#include "core/base/error.h"
#include "core/engine/execute/adasum.h"
#include "core/engine/execute/compress/make_codec.h"
#include "core/reduce/reduce.h"

namespace xoe::engine {
namespace {

std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }
std::size_t size_of(const OpContext& context) { return static_cast<std::size_t>(context.comm.size()); }

// all: every rank's `mine`, by rank.
Task gather_numbers(OpContext& context, const Batch& batch, const std::vector<std::int64_t>& mine,
                    std::vector<std::int64_t>& all) {
  all.resize(mine.size() * size_of(context));
  const std::vector<std::size_t> counts(size_of(context), mine.size());
  XOE_CO_TRY(context.comm.start_allgather(ConstTensor(mine.data(), mine.size()), Tensor(all.data(), all.size()), counts,
                                          options_of(batch)));
  co_return Status();
}

Task run_allgather(OpContext& context, Batch& batch) {
  const SubmittedOperation& s = batch.whole->operation();
  TargetMemory& memory = context.memory_of(s.op);
  const std::size_t n = s.sizes.size();
  std::vector<std::int64_t> mine, all;  // rows and elements of a row, for each tensor
  for (std::size_t t = 0; t < n; ++t) {
    mine.push_back(s.placeholder ? 0 : static_cast<std::int64_t>(s.tensors[t].rows()));
    mine.push_back(s.placeholder ? -1 : static_cast<std::int64_t>(s.tensors[t].row_elements()));
  }
  XOE_CO_TRY(gather_numbers(context, batch, mine, all));
  for (std::size_t t = 0; t < n; ++t) {
    std::vector<std::int64_t> rows;
    std::vector<std::size_t> counts;
    std::int64_t row = 0, total = 0;
    counts.reserve(size_of(context));
    for (std::size_t r = 0; r < size_of(context); ++r) {
      rows.push_back(all[(r * n + t) * 2]);
      row = std::max(row, all[(r * n + t) * 2 + 1]);
      total += rows.back();
    }
    for (const std::int64_t count : rows) counts.push_back(as_size(count) * as_size(row));
    const auto dtype = static_cast<DType>(s.sizes[t].dtype);
    const std::size_t whole = as_size(total) * as_size(row);
    std::vector<std::byte> scratch;
    std::byte* out = nullptr;
    ConstTensor in(nullptr, 0, dtype);
    if (s.placeholder) {
      out = memory.discarded_output(whole * dtype_size(dtype), scratch);
    } else {
      std::vector<std::int64_t> shape = s.tensors[t].shape;
      shape[0] = total;
      out = batch.whole->make_output(t, std::move(shape), dtype);
      in = ConstTensor(s.tensors[t].in, s.tensors[t].count, dtype);
      if (t == 0) batch.whole->outcome.received_splits = rows;
    }
    const Collective gather = make_allgather(in, Tensor(out, whole, dtype), counts, options_of(batch));
    XOE_CO_TRY(memory.run(batch, s, gather));
  }
  co_return Status();
}

Task run_broadcast_bytes(OpContext& context, Batch& batch) {
  const SubmittedOperation& s = batch.whole->operation();
  const bool is_root = context.comm.rank() == s.op.root;
  std::int64_t bytes = is_root ? static_cast<std::int64_t>(s.tensors[0].bytes()) : 0;
  XOE_CO_TRY(context.comm.start_broadcast(Tensor(&bytes, 1), s.op.root, options_of(batch)));
  std::vector<std::byte> scratch;
  std::byte* const out = s.placeholder ? context.host.discarded_output(as_size(bytes), scratch)
                                       : batch.whole->make_output(0, {bytes}, DType::kUint8);
  if (is_root && bytes != 0) std::memmove(out, s.tensors[0].in, as_size(bytes));
  XOE_CO_TRY(context.comm.start_broadcast(Tensor(out, as_size(bytes), DType::kUint8), s.op.root, options_of(batch)));
  co_return Status();
}

// No rank has joined: the readiness table forbids it for alltoall.
Task run_alltoall(OpContext& context, Batch& batch) {
  const SubmittedOperation& s = batch.whole->operation();
  const TensorCopy& t = s.tensors[0];
  std::vector<std::int64_t> received(size_of(context));
  const std::vector<std::size_t> ones(size_of(context), 1);
  XOE_CO_TRY(context.comm.start_alltoall(ConstTensor(s.splits.data(), s.splits.size()), ones,
                                         Tensor(received.data(), received.size()), ones, options_of(batch)));
  std::vector<std::size_t> sends, receives;
  for (const std::int64_t rows : s.splits) sends.push_back(as_size(rows) * t.row_elements());
  for (const std::int64_t rows : received) receives.push_back(as_size(rows) * t.row_elements());
  std::vector<std::int64_t> shape = t.shape;
  shape[0] = std::accumulate(received.begin(), received.end(), std::int64_t{0});
  std::byte* out = batch.whole->make_output(0, std::move(shape), t.dtype);
  const std::size_t total = std::accumulate(receives.begin(), receives.end(), std::size_t{0});
  batch.whole->outcome.received_splits = std::move(received);
  const Collective exchange = make_alltoall(ConstTensor(t.in, t.count, t.dtype), sends, Tensor(out, total, t.dtype),
                                            receives, options_of(batch));
  XOE_CO_TRY(context.memory_of(s.op).run(batch, s, exchange));
  co_return Status();
}

Task run_reduce_scatter(OpContext& context, Batch& batch) {
  const SubmittedOperation& s = batch.whole->operation();
  TargetMemory& memory = context.memory_of(s.op);
  const std::size_t size = size_of(context);
  for (std::size_t i = 0; i < s.sizes.size(); ++i) {
    const auto dtype = static_cast<DType>(s.sizes[i].dtype);
    const std::size_t count = s.sizes[i].count;
    const std::size_t rows = s.placeholder ? s.op.first_dim : s.tensors[i].rows();
    const std::size_t row = rows == 0 ? 0 : count / rows;
    std::vector<std::size_t> counts;
    for (std::size_t r = 0; r < size; ++r) counts.push_back((rows / size + (r < rows % size ? 1 : 0)) * row);
    const std::size_t own = counts[static_cast<std::size_t>(context.comm.rank())];
    std::vector<std::byte> in_scratch, out_scratch;
    const std::byte* const in = memory.reduction_input(s, i, in_scratch);
    std::byte* out = nullptr;
    if (s.placeholder) {
      out = memory.discarded_output(own * dtype_size(dtype), out_scratch);
    } else {
      std::vector<std::int64_t> shape = s.tensors[i].shape;
      shape[0] = static_cast<std::int64_t>(row == 0 ? 0 : own / row);
      out = batch.whole->make_output(i, std::move(shape), dtype);
    }
    const Tensor part(out, own, dtype);
    const Collective scatter =
        make_reduce_scatter(ConstTensor(in, count, dtype), part, counts, s.op.reduce, options_of(batch));
    XOE_CO_TRY(memory.run(batch, s, scatter));
    memory.scale_result(s, part);
  }
  co_return Status();
}

Task run_adasum(OpContext& context, Batch& batch) {
  const SubmittedOperation& s = batch.whole->operation();
  std::vector<std::vector<std::byte>> zeros;
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < s.sizes.size(); ++i) {
    const auto dtype = static_cast<DType>(s.sizes[i].dtype);
    const std::size_t count = s.sizes[i].count;
    if (s.placeholder)
      zeros.emplace_back(count * dtype_size(dtype));
    else
      pack_tensor(s.tensors[i].out, dtype, s.tensors[i], s.op.prescale);
    tensors.emplace_back(s.placeholder ? zeros.back().data() : s.tensors[i].out, count, dtype);
  }
  XOE_CO_TRY(adasum(context.comm, tensors));
  for (const Tensor& t : tensors) context.host.scale_result(s, t);
  co_return Status();
}

// The codecs of an operation's tensors, made when it runs for the first time.
Result<Codecs*> codecs_of(OpContext& context, const Batch& batch) {
  const SubmittedOperation& s = batch.whole->operation();
  std::size_t bytes = 0;
  for (const TensorSize& size : s.sizes) bytes += codec_state_bytes(s.op.compression, size.count);
  Codecs& codecs = context.codecs.use(batch.codec_key, bytes);
  if (codecs.signature == s.signature) return &codecs;
  codecs = {};
  for (std::size_t i = 0; i < s.sizes.size(); ++i) {
    // A placeholder knows as much of the shape as codecs need.
    const auto rows = static_cast<std::int64_t>(s.op.first_dim);
    const auto count = static_cast<std::int64_t>(s.sizes[i].count);
    std::vector<std::int64_t> shape{rows, rows == 0 ? 0 : count / rows};
    if (!s.placeholder) shape = s.tensors[i].shape;
    XOE_ASSIGN(auto codec, make_codec(s.op.compression, shape, context.codecs.scratch()));
    codecs.of_tensor.push_back(std::move(codec));
  }
  codecs.signature = s.signature;  // only now: without a codec for each tensor it must not be used
  return &codecs;
}

Task run_codec(OpContext& context, Batch& batch) {
  const SubmittedOperation& s = batch.whole->operation();
  auto codecs = codecs_of(context, batch);
  if (!codecs) co_return failure(std::move(codecs).error());
  for (std::size_t i = 0; i < s.sizes.size(); ++i) {
    const std::size_t count = s.sizes[i].count;
    std::vector<float> values(count);
    auto* floats = reinterpret_cast<std::byte*>(values.data());
    if (!s.placeholder) pack_tensor(floats, DType::kFloat32, s.tensors[i], s.op.prescale);
    XOE_CO_TRY((*codecs)->of_tensor[i]->allreduce(context.comm, values));
    if (s.placeholder) continue;
    double scale = s.op.postscale;
    if (s.op.reduce == ReduceOp::kAverage) scale /= context.comm.size();
    unpack_tensor(floats, DType::kFloat32, s.tensors[i], scale);
  }
  co_return Status();
}

}  // namespace

Task run_whole(OpContext& context, Batch& batch) {
  switch (batch.op.kind) {
    case OpKind::kAllgather:
    case OpKind::kSparseAllreduce: return run_allgather(context, batch);
    case OpKind::kBroadcastBytes: return run_broadcast_bytes(context, batch);
    case OpKind::kAlltoall: return run_alltoall(context, batch);
    case OpKind::kReduceScatter: return run_reduce_scatter(context, batch);
    case OpKind::kAdasum: return run_adasum(context, batch);
    default: return run_codec(context, batch);
  }
}

}  // namespace xoe::engine

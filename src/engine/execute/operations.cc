#include "engine/execute/operations.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "backend/collective.h"
#include "base/error.h"
#include "engine/execute/adasum.h"
#include "engine/execute/compress/make_codec.h"
#include "engine/execute/gpu/gpu_operations.h"
#include "reduce/neutral.h"
#include "reduce/reduce.h"

namespace xoe::engine {
namespace {

constexpr std::size_t kSmallestBuffer = std::size_t{64} << 10;

std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }
std::size_t rank_of(const Workshop& shop) { return static_cast<std::size_t>(shop.comm.rank()); }
std::size_t size_of(const Workshop& shop) { return static_cast<std::size_t>(shop.comm.size()); }

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0 && to != from) std::memmove(to, from, bytes);
}

// A tensor between the caller's memory and the wire, converted and scaled on the way.
void pack(std::byte* to, DType wire, const TensorCopy& tensor, double scale) {
  if (wire == tensor.dtype)
    copy_bytes(to, tensor.in, tensor.bytes());
  else
    reduce::cast(tensor.in, tensor.dtype, to, wire, tensor.count);
  if (scale != 1) reduce::scale(to, tensor.count, wire, scale);
}

void unpack(const std::byte* from, DType wire, const TensorCopy& tensor, double scale) {
  if (wire == tensor.dtype)
    copy_bytes(tensor.out, from, tensor.bytes());
  else
    reduce::cast(from, wire, tensor.out, tensor.dtype, tensor.count);
  if (scale != 1) reduce::scale(tensor.out, tensor.count, tensor.dtype, scale);
}

const Item& item_of(const Running& running, const Piece& piece) { return (*running.items)[piece.item]; }

// Can the collective work on the caller's own memory?
bool direct(const Running& running) {
  const Batch& batch = running.batch;
  if (batch.wire != batch.op.dtype || (batch.op.kind == OpKind::kBroadcast && batch.pieces.size() != 1)) return false;
  return std::all_of(batch.pieces.begin(), batch.pieces.end(), [&](const Piece& piece) {
    const auto& submission = item_of(running, piece).submission;
    return submission != nullptr && submission->op.prescale == 1;
  });
}

bool on_gpu(const Item& item) { return item.op.gpu; }

OpOptions options_of(const Running& running) { return {.name = running.title}; }

Task run_direct(Workshop& shop, Running& running) {
  const Batch& batch = running.batch;
  const Piece& piece = batch.pieces[0];
  const Submission& s = *item_of(running, piece).submission;
  const TensorCopy& t = s.tensors[piece.tensor];
  const Tensor out(t.out, t.count, t.dtype);
  if (batch.op.kind == OpKind::kBroadcast && shop.comm.rank() == batch.op.root) copy_bytes(t.out, t.in, t.bytes());
  auto started =
      batch.op.kind == OpKind::kBroadcast
          ? shop.comm.start_broadcast(out, batch.op.root, options_of(running))
          : shop.comm.start_allreduce(ConstTensor(t.in, t.count, t.dtype), out, batch.op.reduce, options_of(running));
  running.may_follow = true;
  XOE_CO_TRY(std::move(started));
  running.reduced = EngineClock::now();
  if (s.op.postscale != 1) reduce::scale(t.out, t.count, t.dtype, s.op.postscale);
  co_return Status();
}

// Several tensors as one, where they stand: the communicator stages of each what its peers need, and no more.
Task run_segments(Workshop& shop, Running& running) {
  const Batch& batch = running.batch;
  std::vector<Segment> segments;
  segments.reserve(batch.pieces.size());
  for (const Piece& piece : batch.pieces) {
    const TensorCopy& t = item_of(running, piece).submission->tensors[piece.tensor];
    segments.push_back({t.in, t.out, t.count});
  }
  auto started = shop.comm.start_allreduce(segments, batch.op.dtype, batch.op.reduce, options_of(running));
  running.may_follow = true;
  XOE_CO_TRY(std::move(started));
  running.reduced = EngineClock::now();
  for (const Piece& piece : batch.pieces) {
    const Submission& s = *item_of(running, piece).submission;
    const TensorCopy& t = s.tensors[piece.tensor];
    if (s.op.postscale != 1) reduce::scale(t.out, t.count, t.dtype, s.op.postscale);
  }
  co_return Status();
}

Task run_fused(Workshop& shop, Running& running) {
  const Batch& batch = running.batch;
  const std::size_t element = dtype_size(batch.wire);
  auto buffer = shop.buffers.take(shop.comm, batch.bytes);
  if (!buffer) co_return failure(std::move(buffer).error());
  const bool sends = batch.op.kind != OpKind::kBroadcast || shop.comm.rank() == batch.op.root;
  std::byte* at = buffer->data();
  for (const Piece& piece : batch.pieces) {
    const auto& submission = item_of(running, piece).submission;
    if (submission == nullptr)
      reduce::fill_neutral(at, piece.count, batch.wire, batch.op.reduce);
    else if (sends)
      pack(at, batch.wire, submission->tensors[piece.tensor], submission->op.prescale);
    at += piece.count * element;
  }
  running.packed = EngineClock::now();
  const Tensor whole(buffer->data(), batch.bytes / element, batch.wire);
  auto started = batch.op.kind == OpKind::kBroadcast
                     ? shop.comm.start_broadcast(whole, batch.op.root, options_of(running))
                     : shop.comm.start_allreduce(whole, whole, batch.op.reduce, options_of(running));
  running.may_follow = true;
  XOE_CO_TRY(std::move(started));
  running.reduced = EngineClock::now();
  at = buffer->data();
  for (const Piece& piece : batch.pieces) {
    if (const auto& submission = item_of(running, piece).submission; submission != nullptr)
      unpack(at, batch.wire, submission->tensors[piece.tensor], submission->op.postscale);
    at += piece.count * element;
  }
  shop.buffers.give_back(std::move(*buffer));
  co_return Status();
}

// Every rank's `mine`, by rank.
Task gather_numbers(Workshop& shop, const Running& running, const std::vector<std::int64_t>& mine,
                    std::vector<std::int64_t>& all) {
  all.resize(mine.size() * size_of(shop));
  const std::vector<std::size_t> counts(size_of(shop), mine.size());
  XOE_CO_TRY(shop.comm.start_allgather(ConstTensor(mine.data(), mine.size()), Tensor(all.data(), all.size()), counts,
                                       options_of(running)));
  co_return Status();
}

Task run_allgather(Workshop& shop, Running& running, const Item& item) {
  const std::size_t n = item.sizes.size();
  std::vector<std::int64_t> mine, all;  // rows and elements of a row, for each tensor
  for (std::size_t t = 0; t < n; ++t) {
    mine.push_back(item.submission ? static_cast<std::int64_t>(item.submission->tensors[t].rows()) : 0);
    mine.push_back(item.submission ? static_cast<std::int64_t>(item.submission->tensors[t].row_elements()) : -1);
  }
  XOE_CO_TRY(gather_numbers(shop, running, mine, all));
  for (std::size_t t = 0; t < n; ++t) {
    std::vector<std::int64_t> rows;
    std::vector<std::size_t> counts;
    std::int64_t row = 0, total = 0;
    for (std::size_t r = 0; r < size_of(shop); ++r) {
      rows.push_back(all[(r * n + t) * 2]);
      row = std::max(row, all[(r * n + t) * 2 + 1]);
      total += rows.back();
    }
    for (const std::int64_t count : rows) counts.push_back(as_size(count) * as_size(row));
    const auto dtype = static_cast<DType>(item.sizes[t].dtype);
    const std::size_t whole = as_size(total) * as_size(row);
    std::vector<std::byte> unwanted;
    std::byte* out = nullptr;
    ConstTensor in(nullptr, 0, dtype);
    if (Submission* s = item.submission.get(); s != nullptr) {
      std::vector<std::int64_t> shape = s->tensors[t].shape;
      shape[0] = total;
      out = s->make_output(t, std::move(shape), dtype);
      in = ConstTensor(s->tensors[t].in, s->tensors[t].count, dtype);
      if (t == 0) s->received_splits = rows;
    } else if (!on_gpu(item)) {
      unwanted.resize(whole * dtype_size(dtype));
      out = unwanted.data();
    }
    const Tensor all_rows(out, whole, dtype);
    auto started =
        on_gpu(item) ? start_on_gpu(shop, running, item, make_allgather(in, all_rows, counts, options_of(running)))
                     : shop.comm.start_allgather(in, all_rows, counts, options_of(running));
    XOE_CO_TRY(std::move(started));
  }
  if (item.submission && item.op.kind == OpKind::kSparseAllreduce && item.op.reduce == ReduceOp::kAverage) {
    const Output& values = item.submission->outputs[1];
    std::size_t count = 1;
    for (const std::int64_t dimension : values.shape) count *= as_size(dimension);
    reduce::scale(values.data, count, values.dtype, 1.0 / static_cast<double>(shop.comm.size()));
  }
  co_return Status();
}

Task run_broadcast_bytes(Workshop& shop, Running& running, const Item& item) {
  const bool is_root = shop.comm.rank() == item.op.root;
  std::int64_t bytes = is_root ? static_cast<std::int64_t>(item.submission->tensors[0].bytes()) : 0;
  XOE_CO_TRY(shop.comm.start_broadcast(Tensor(&bytes, 1), item.op.root, options_of(running)));
  std::vector<std::byte> unwanted;
  std::byte* out = nullptr;
  if (item.submission) {
    out = item.submission->make_output(0, {bytes}, DType::kUint8);
  } else {
    unwanted.resize(as_size(bytes));
    out = unwanted.data();
  }
  if (is_root) copy_bytes(out, item.submission->tensors[0].in, as_size(bytes));
  XOE_CO_TRY(shop.comm.start_broadcast(Tensor(out, as_size(bytes), DType::kUint8), item.op.root, options_of(running)));
  co_return Status();
}

// No rank has joined: the table forbids it for alltoall.
Task run_alltoall(Workshop& shop, Running& running, const Item& item) {
  Submission& s = *item.submission;
  const TensorCopy& t = s.tensors[0];
  std::vector<std::int64_t> received(size_of(shop));
  const std::vector<std::size_t> ones(size_of(shop), 1);
  XOE_CO_TRY(shop.comm.start_alltoall(ConstTensor(s.splits.data(), s.splits.size()), ones,
                                      Tensor(received.data(), received.size()), ones, options_of(running)));
  std::vector<std::size_t> sends, receives;
  for (const std::int64_t rows : s.splits) sends.push_back(as_size(rows) * t.row_elements());
  for (const std::int64_t rows : received) receives.push_back(as_size(rows) * t.row_elements());
  std::vector<std::int64_t> shape = t.shape;
  shape[0] = std::accumulate(received.begin(), received.end(), std::int64_t{0});
  std::byte* out = s.make_output(0, std::move(shape), t.dtype);
  const std::size_t total = std::accumulate(receives.begin(), receives.end(), std::size_t{0});
  s.received_splits = std::move(received);
  const ConstTensor given(t.in, t.count, t.dtype);
  const Tensor taken(out, total, t.dtype);
  auto started = on_gpu(item) ? start_on_gpu(shop, running, item,
                                             make_alltoall(given, sends, taken, receives, options_of(running)))
                              : shop.comm.start_alltoall(given, sends, taken, receives, options_of(running));
  XOE_CO_TRY(std::move(started));
  co_return Status();
}

Task run_reduce_scatter(Workshop& shop, Running& running, const Item& item) {
  for (std::size_t i = 0; i < item.sizes.size(); ++i) {
    const auto dtype = static_cast<DType>(item.sizes[i].dtype);
    const std::size_t count = item.sizes[i].count;
    Submission* s = item.submission.get();
    const std::size_t rows = s != nullptr ? s->tensors[i].rows() : item.op.first_dim;
    const std::size_t row = rows == 0 ? 0 : count / rows;
    std::vector<std::size_t> counts;
    for (std::size_t r = 0; r < size_of(shop); ++r)
      counts.push_back((rows / size_of(shop) + (r < rows % size_of(shop) ? 1 : 0)) * row);
    const std::size_t own = counts[rank_of(shop)];
    std::vector<std::byte> scratch, unwanted;
    const std::byte* in = s != nullptr ? s->tensors[i].in : nullptr;
    if (!on_gpu(item) && (s == nullptr || s->op.prescale != 1)) {
      scratch.resize(count * dtype_size(dtype));
      if (s != nullptr)
        pack(scratch.data(), dtype, s->tensors[i], s->op.prescale);
      else
        reduce::fill_neutral(scratch.data(), count, dtype, item.op.reduce);
      in = scratch.data();
    }
    std::byte* out = nullptr;
    if (s != nullptr) {
      std::vector<std::int64_t> shape = s->tensors[i].shape;
      shape[0] = static_cast<std::int64_t>(row == 0 ? 0 : own / row);
      out = s->make_output(i, std::move(shape), dtype);
    } else if (!on_gpu(item)) {
      unwanted.resize(own * dtype_size(dtype));
      out = unwanted.data();
    }
    const ConstTensor whole(in, count, dtype);
    const Tensor part(out, own, dtype);
    const ReduceOp op = item.op.reduce;
    if (on_gpu(item)) {
      XOE_CO_TRY(
          start_on_gpu(shop, running, item, make_reduce_scatter(whole, part, counts, op, options_of(running))));
      continue;
    }
    XOE_CO_TRY(shop.comm.start_reduce_scatter(whole, part, counts, op, options_of(running)));
    if (s != nullptr && s->op.postscale != 1) reduce::scale(out, own, dtype, s->op.postscale);
  }
  co_return Status();
}

Task run_adasum(Workshop& shop, const Item& item) {
  std::vector<std::vector<std::byte>> zeros;
  std::vector<Tensor> tensors;
  Submission* s = item.submission.get();
  for (std::size_t i = 0; i < item.sizes.size(); ++i) {
    const auto dtype = static_cast<DType>(item.sizes[i].dtype);
    const std::size_t count = item.sizes[i].count;
    if (s == nullptr) zeros.emplace_back(count * dtype_size(dtype));
    if (s != nullptr) pack(s->tensors[i].out, dtype, s->tensors[i], s->op.prescale);
    tensors.emplace_back(s != nullptr ? s->tensors[i].out : zeros.back().data(), count, dtype);
  }
  XOE_CO_TRY(adasum(shop.comm, tensors));
  if (s != nullptr && s->op.postscale != 1)
    for (const Tensor& t : tensors) reduce::scale(t.data, t.count, t.dtype, s->op.postscale);
  co_return Status();
}

// The codecs of an item's tensors; made at its first time.
Result<Codecs*> codecs_of(Workshop& shop, const Running& running, const Item& item) {
  Codecs& codecs = shop.codecs[running.codec_key];
  if (codecs.signature == item.signature) return &codecs;
  codecs = {.signature = item.signature, .of_tensor = {}};
  for (std::size_t i = 0; i < item.sizes.size(); ++i) {
    // A rank without the tensor knows as much of its shape as matters.
    const auto rows = static_cast<std::int64_t>(item.op.first_dim);
    const auto count = static_cast<std::int64_t>(item.sizes[i].count);
    std::vector<std::int64_t> shape{rows, rows == 0 ? 0 : count / rows};
    if (item.submission != nullptr) shape = item.submission->tensors[i].shape;
    XOE_ASSIGN(auto codec, make_codec(item.op.compression, shape));
    codecs.of_tensor.push_back(std::move(codec));
  }
  return &codecs;
}

Task run_codec(Workshop& shop, Running& running, const Item& item) {
  auto codecs = codecs_of(shop, running, item);
  if (!codecs) co_return failure(std::move(codecs).error());
  for (std::size_t i = 0; i < item.sizes.size(); ++i) {
    const std::size_t count = item.sizes[i].count;
    std::vector<float> values(count);
    auto* floats = reinterpret_cast<std::byte*>(values.data());
    if (item.submission != nullptr)
      pack(floats, DType::kFloat32, item.submission->tensors[i], item.submission->op.prescale);
    XOE_CO_TRY((*codecs)->of_tensor[i]->allreduce(shop.comm, values));
    if (item.submission == nullptr) continue;
    double scale = item.submission->op.postscale;
    if (item.op.reduce == ReduceOp::kAverage) scale /= shop.comm.size();
    unpack(floats, DType::kFloat32, item.submission->tensors[i], scale);
  }
  co_return Status();
}

// Within a host the table refuses these before; a host all of whose ranks have joined is found out here.
bool lacks_data(const Workshop& shop, const Running& running, const Item& item) {
  if (item.submission != nullptr) return false;
  const bool roots = item.op.kind == OpKind::kBroadcast || item.op.kind == OpKind::kBroadcastBytes;
  return item.op.kind == OpKind::kAlltoall || (roots && shop.comm.rank() == item.op.root) ||
         (running.batch.fused ? false : item.op.tensors > kListedTensors);
}

Task refuse(const Running& running) {
  co_return failure(Code::kInvalidArgument, "'{}' needs data from this rank, which has joined", running.title);
}

Task run_item(Workshop& shop, Running& running, const Item& item) {
  switch (item.op.kind) {
    case OpKind::kAllgather:
    case OpKind::kSparseAllreduce: return run_allgather(shop, running, item);
    case OpKind::kBroadcastBytes: return run_broadcast_bytes(shop, running, item);
    case OpKind::kAlltoall: return run_alltoall(shop, running, item);
    case OpKind::kReduceScatter: return run_reduce_scatter(shop, running, item);
    case OpKind::kAdasum: return run_adasum(shop, item);
    default: return run_codec(shop, running, item);
  }
}

}  // namespace

Result<SharedBuffer> BufferPool::take(Communicator& comm, std::size_t bytes) {
  const auto fits = std::find_if(free_.begin(), free_.end(), [&](const SharedBuffer& b) { return b.bytes() >= bytes; });
  if (fits != free_.end()) {
    SharedBuffer buffer = std::move(*fits);
    free_.erase(fits);
    return buffer;
  }
  if (!free_.empty()) free_.pop_back();  // too small: a larger one takes its place
  return comm.shared_buffer(std::bit_ceil(std::max(bytes, kSmallestBuffer)));
}

void BufferPool::give_back(SharedBuffer buffer) { free_.push_back(std::move(buffer)); }

Task run_batch(Workshop& shop, Running& running) {
  const auto lacks = [&](std::size_t item) { return lacks_data(shop, running, (*running.items)[item]); };
  if (running.batch.fused ? std::any_of(running.batch.pieces.begin(), running.batch.pieces.end(),
                                        [&](const Piece& piece) { return lacks(piece.item); })
                          : lacks(running.batch.item))
    return refuse(running);
  if (running.batch.op.gpu)
    return run_with_gpu(shop, running,
                        running.batch.fused ? run_pieces_on_gpu(shop, running)
                                            : run_item(shop, running, (*running.items)[running.batch.item]));
  if (!running.batch.fused) return run_item(shop, running, (*running.items)[running.batch.item]);
  if (!direct(running)) return run_fused(shop, running);
  return running.batch.pieces.size() == 1 ? run_direct(shop, running) : run_segments(shop, running);
}

}  // namespace xoe::engine

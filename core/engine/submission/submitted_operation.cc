#include "core/engine/submission/submitted_operation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/text.h"
#include "core/reduce/reduce.h"

namespace xoe {

std::string_view op_kind_name(OpKind kind) noexcept {
  switch (kind) {
    case OpKind::kAllreduce: return "allreduce";
    case OpKind::kAdasum: return "adasum";
    case OpKind::kSparseAllreduce: return "sparse_allreduce";
    case OpKind::kAllgather: return "allgather";
    case OpKind::kBroadcast: return "broadcast";
    case OpKind::kBroadcastBytes: return "broadcast_bytes";
    case OpKind::kAlltoall: return "alltoall";
    case OpKind::kReduceScatter: return "reduce_scatter";
    case OpKind::kBarrier: return "barrier";
    case OpKind::kJoin: return "join";
  }
  return "unknown";
}

std::string_view compression_name(Compression compression) noexcept {
  switch (compression) {
    case Compression::kNone: return "none";
    case Compression::kFloat16: return "float16";
    case Compression::kBfloat16: return "bfloat16";
    case Compression::kFloat8: return "float8";
    case Compression::kTopK: return "top_k";
    case Compression::kPowerSgd: return "power_sgd";
  }
  return "unknown";
}

namespace engine {
namespace {

constexpr std::size_t kMaxSubmittedName = 1024;
constexpr std::size_t kMaxCount = (std::size_t{1} << 56) - 1;  // more than memory can hold

bool is_float(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBfloat16 || dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

bool reduces(OpKind kind) { return kind == OpKind::kAllreduce || kind == OpKind::kReduceScatter; }
// Ranks may differ in the first dimension.
bool free_first_dim(OpKind kind) {
  return kind == OpKind::kAllgather || kind == OpKind::kAlltoall || kind == OpKind::kSparseAllreduce;
}
bool gives_output(OpKind kind) {
  return free_first_dim(kind) || kind == OpKind::kReduceScatter || kind == OpKind::kBroadcastBytes;
}
bool may_be_group(OpKind kind) {
  return kind == OpKind::kAllreduce || kind == OpKind::kAllgather || kind == OpKind::kBroadcast ||
         kind == OpKind::kReduceScatter || kind == OpKind::kAdasum;
}

// what: names the operation in errors.
Result<TensorCopy> copy_tensor(const TensorArg& tensor, const SubmittedOperation& s, std::size_t index) {
  TensorCopy copy{static_cast<const std::byte*>(tensor.in),
                  static_cast<std::byte*>(tensor.out),
                  tensor.dtype,
                  {tensor.shape.begin(), tensor.shape.end()},
                  1};
  const std::size_t most =
      std::numeric_limits<std::ptrdiff_t>::max() / std::max<std::size_t>(1, dtype_size(tensor.dtype));
  if (dtype_size(tensor.dtype) == 0)
    return failure(Code::kInvalidArgument, "{}: tensor {} has no known element type", s.title(), index);
  for (const std::int64_t dimension : copy.shape) {
    if (dimension < 0)
      return failure(Code::kInvalidArgument, "{}: tensor {} has shape [{}]", s.title(), index,
                     fmt::join(copy.shape, ", "));
    const auto n = static_cast<std::size_t>(dimension);
    if (n != 0 && copy.count > most / n)
      return failure(Code::kInvalidArgument, "{}: tensor {} of shape [{}] is more than memory can hold", s.title(),
                     index, fmt::join(copy.shape, ", "));
    copy.count *= n;
  }
  return copy;
}

// Where a result in place begins, and the bytes written to a tensor's `out`, as far as they are known.
struct OutputBytes {
  std::size_t begin = 0;
  std::size_t count = 0;
};
OutputBytes output_bytes(const TensorCopy& t, OpKind kind, int rank, int ranks) {
  if (kind != OpKind::kReduceScatter || t.rows() == 0) return {.begin = 0, .count = t.bytes()};
  const std::size_t size = static_cast<std::size_t>(ranks), own = static_cast<std::size_t>(rank);
  const std::size_t each = t.rows() / size, more = t.rows() % size, row = t.bytes() / t.rows();
  return {.begin = (each * own + std::min(own, more)) * row, .count = (each + (own < more ? 1 : 0)) * row};
}

// Is the memory of one tensor there, and may the operation use it?
Status check_memory(const SubmittedOperation& s, std::size_t i, const TensorCopy& t, int rank, int ranks) {
  const OpKind kind = s.op.kind;
  const bool sends = (kind != OpKind::kBroadcast && kind != OpKind::kBroadcastBytes) || rank == s.op.root;
  if (sends && t.in == nullptr && t.count != 0)
    return failure(Code::kInvalidArgument, "{}: tensor {} has {} elements and no memory", s.title(), i, t.count);
  if (!gives_output(kind) && t.out == nullptr && t.count != 0)
    return failure(Code::kInvalidArgument, "{}: tensor {} has no memory for its result", s.title(), i);
  const OutputBytes output = output_bytes(t, kind, rank, ranks);
  const bool in_place = kind == OpKind::kReduceScatter || !gives_output(kind);
  if (t.out != nullptr && t.in != nullptr && t.out < t.in + t.bytes() && t.in < t.out + output.count &&
      !(in_place && t.out == t.in + output.begin))
    return failure(Code::kInvalidArgument, "{}: `in` and `out` of tensor {} overlap{}", s.title(), i,
                   in_place ? " without being in place" : "; this operation does not work in place");
  return {};
}

Status check_tensors(const SubmittedOperation& s, const Request& request, int rank, int ranks) {
  const auto count = s.tensors.size();
  const OpKind kind = request.op.kind;
  const bool none = kind == OpKind::kBarrier || kind == OpKind::kJoin;
  const std::size_t wanted = kind == OpKind::kSparseAllreduce ? 2 : 1;
  if (none ? count != 0 : (may_be_group(kind) ? count == 0 : count != wanted))
    return failure(Code::kInvalidArgument, "{}: takes {}, got {}", s.title(),
                   none                 ? "no tensors"
                   : may_be_group(kind) ? "one tensor or more"
                                        : fmt::format("{} tensor(s)", wanted),
                   count);
  for (std::size_t i = 0; i < count; ++i) {
    const TensorCopy& t = s.tensors[i];
    XOE_TRY(check_memory(s, i, t, rank, ranks));
    if (free_first_dim(kind) && t.shape.empty())
      return failure(Code::kInvalidArgument, "{}: tensor {} is a scalar; it needs a first dimension", s.title(), i);
    if (kind == OpKind::kReduceScatter && t.shape.empty())
      return failure(Code::kInvalidArgument, "{}: tensor {} is a scalar; it cannot be cut", s.title(), i);
    if (reduces(kind)) XOE_TRY(reduce::supports(t.dtype, request.op.reduce));
    if (kind == OpKind::kAdasum && !is_float(t.dtype))
      return failure(Code::kInvalidArgument, "{}: adasum takes float tensors, got {}", s.title(), dtype_name(t.dtype));
    if ((kind == OpKind::kAdasum || request.op.compression.kind != Compression::kNone) && t.dtype != s.tensors[0].dtype)
      return failure(Code::kInvalidArgument, "{}: the tensors of this group must have one type", s.title());
  }
  if (kind == OpKind::kSparseAllreduce && (s.tensors[0].dtype != DType::kInt64 || s.tensors[0].shape.size() != 1 ||
                                           s.tensors[0].shape[0] != s.tensors[1].shape[0]))
    return failure(Code::kInvalidArgument, "{}: indices must be int64 [n] and values [n, ...], got {} [{}] and [{}]",
                   s.title(), dtype_name(s.tensors[0].dtype), fmt::join(s.tensors[0].shape, ", "),
                   fmt::join(s.tensors[1].shape, ", "));
  return {};
}

Status check_scales(const SubmittedOperation& s, const Request& request) {
  const bool scaled = request.op.prescale != 1 || request.op.postscale != 1;
  if (!std::isfinite(request.op.prescale) || !std::isfinite(request.op.postscale))
    return failure(Code::kInvalidArgument, "{}: prescale {} and postscale {} must be finite", s.title(),
                   request.op.prescale, request.op.postscale);
  if (!scaled) return {};
  if (!reduces(request.op.kind) && request.op.kind != OpKind::kAdasum)
    return failure(Code::kInvalidArgument, "{}: takes no prescale or postscale", s.title());
  for (const TensorCopy& t : s.tensors)
    if (t.dtype == DType::kBool) return failure(Code::kInvalidArgument, "{}: bool tensors cannot be scaled", s.title());
  return {};
}

Status check_compression(const SubmittedOperation& s, const Request& request) {
  const auto& c = request.op.compression;
  if (c.kind == Compression::kNone) return {};
  if (request.op.kind != OpKind::kAllreduce || !traits_of(request.op.reduce).linear)
    return failure(Code::kInvalidArgument, "{}: compression {} is for allreduce with sum or average", s.title(),
                   compression_name(c.kind));
  if (!is_float(s.tensors[0].dtype))
    return failure(Code::kInvalidArgument, "{}: compression {} is for float tensors, got {}", s.title(),
                   compression_name(c.kind), dtype_name(s.tensors[0].dtype));
  if (c.kind == Compression::kTopK && !(c.top_k_ratio > 0 && c.top_k_ratio <= 1))
    return failure(Code::kInvalidArgument, "{}: top_k_ratio must lie in (0, 1], got {}", s.title(), c.top_k_ratio);
  if (c.kind == Compression::kPowerSgd && (c.power_sgd_rank < 1 || c.power_sgd_rank > 1024))
    return failure(Code::kInvalidArgument, "{}: power_sgd_rank must lie in 1 ... 1024, got {}", s.title(),
                   c.power_sgd_rank);
  return {};
}

Status check_rest(const SubmittedOperation& s, const Request& request, int ranks) {
  if (!request.dense_shape.empty() && request.op.kind != OpKind::kSparseAllreduce)
    return failure(Code::kInvalidArgument, "{}: takes no dense_shape", s.title());
  if (has_root(request.op.kind) && (request.op.root < 0 || request.op.root >= ranks))
    return failure(Code::kInvalidArgument, "{}: root {} is not one of the {} ranks of the process set", s.title(),
                   request.op.root, ranks);
  if (request.op.kind != OpKind::kAlltoall) {
    if (!request.splits.empty()) return failure(Code::kInvalidArgument, "{}: takes no splits", s.title());
    return {};
  }
  const auto rows = static_cast<std::int64_t>(s.tensors[0].rows());
  if (request.splits.empty()) {
    if (rows % ranks != 0)
      return failure(Code::kInvalidArgument, "{}: {} cannot be cut into {} equal parts; give splits", s.title(),
                     counted(rows, "row"), ranks);
    return {};
  }
  std::int64_t sum = 0;
  for (const std::int64_t split : request.splits) {
    if (split < 0 || split > rows)
      return failure(Code::kInvalidArgument, "{}: a split of {} of {}", s.title(), split, counted(rows, "row"));
    sum += split;
  }
  if (static_cast<int>(request.splits.size()) != ranks || sum != rows)
    return failure(Code::kInvalidArgument, "{}: {} that add up to {} for {} and {}", s.title(),
                   counted(std::ssize(request.splits), "split"), sum, counted(ranks, "rank"), counted(rows, "row"));
  return {};
}

// Refuses operations that work in host memory only.
Status check_gpu(const SubmittedOperation& s, const Request& request) {
  if (!request.op.gpu) return {};
  const OpKind kind = request.op.kind;
  const bool moves = kind == OpKind::kBroadcast || kind == OpKind::kAllgather || kind == OpKind::kAlltoall;
  if ((!moves && !reduces(kind)) || request.op.compression.kind != Compression::kNone)
    return failure(Code::kUnsupported, "{}: {}{} takes no GPU memory; copy the tensors to host memory", s.title(),
                   op_kind_name(kind), moves || reduces(kind) ? " with compression" : "");
  for (std::size_t i = 0; i < s.tensors.size(); ++i) {
    const TensorCopy& t = s.tensors[i];
    if (gives_output(kind) && t.out == nullptr && t.count != 0 && !request.allocator)
      return failure(Code::kInvalidArgument,
                     "{}: tensor {} has no GPU memory for its result, and no allocator is given", s.title(), i);
  }
  return {};
}

void put_hash(std::uint64_t& sum, std::uint64_t value) { sum = mix(sum ^ (value + 0x9e3779b97f4a7c15u)); }

// The operation as the ranks must agree on it: without what this kind of operation ignores.
OpSpec agreed_spec(const OpSpec& asked) {
  OpSpec spec = asked;
  const CompressionOptions& c = asked.compression;
  spec.compression = {.kind = c.kind};
  if (c.kind != Compression::kNone) spec.compression.error_feedback = c.error_feedback;
  if (c.kind == Compression::kTopK) spec.compression.top_k_ratio = c.top_k_ratio;
  if (c.kind == Compression::kPowerSgd) spec.compression.power_sgd_rank = c.power_sgd_rank;
  if (!reduces(asked.kind)) spec.reduce = ReduceOp::kSum;
  if (!has_root(asked.kind)) spec.root = 0;
  for (double* const scale : {&spec.prescale, &spec.postscale})
    if (*scale == 0) *scale = 0;  // -0.0 too, so that all ranks get zeros of one sign
  return spec;
}

std::uint64_t sign(const SubmittedOperation& s) {
  const OpDescriptor& op = s.op;
  std::uint64_t sum = static_cast<std::uint64_t>(op.kind);
  for (const std::uint64_t part :
       {static_cast<std::uint64_t>(op.reduce), static_cast<std::uint64_t>(op.compression.kind),
        static_cast<std::uint64_t>(op.compression.error_feedback), static_cast<std::uint64_t>(op.internal),
        static_cast<std::uint64_t>(op.root), static_cast<std::uint64_t>(op.tensors), static_cast<std::uint64_t>(op.gpu),
        static_cast<std::uint64_t>(op.needs_all_ranks), static_cast<std::uint64_t>(op.compression.power_sgd_rank),
        std::bit_cast<std::uint64_t>(op.compression.top_k_ratio), std::bit_cast<std::uint64_t>(op.prescale),
        std::bit_cast<std::uint64_t>(op.postscale)})
    put_hash(sum, part);
  for (const TensorCopy& tensor : s.tensors) {
    if (op.kind == OpKind::kBroadcastBytes) break;  // only the root knows
    put_hash(sum, static_cast<std::uint64_t>(tensor.dtype));
    put_hash(sum, tensor.shape.size());
    for (std::size_t d = free_first_dim(op.kind) ? 1 : 0; d < tensor.shape.size(); ++d)
      put_hash(sum, static_cast<std::uint64_t>(tensor.shape[d]));
  }
  for (const std::int64_t value : s.argument) put_hash(sum, static_cast<std::uint64_t>(value));
  put_hash(sum, s.dense_shape.size());
  for (const std::int64_t size : s.dense_shape) put_hash(sum, static_cast<std::uint64_t>(size));
  if (!s.detail.empty()) put_hash(sum, hash_text(s.detail));
  return needs_every_rank(op) ? sum | kNeedsEveryRank : sum & ~kNeedsEveryRank;
}

}  // namespace

std::size_t TensorCopy::row_elements() const noexcept {
  std::size_t elements = 1;
  for (std::size_t d = 1; d < shape.size(); ++d) elements *= static_cast<std::size_t>(shape[d]);
  return elements;
}

Result<SubmittedOperation> SubmittedOperation::make(const Request& request, std::string name, int rank, int ranks) {
  SubmittedOperation s;
  s.name = std::move(name);
  s.queue_same_name = request.queue_same_name;
  s.timeout = request.timeout;
  s.asked = request.op;
  static_cast<OpSpec&>(s.op) = agreed_spec(request.op);
  if (s.name.size() > kMaxSubmittedName)
    return failure(Code::kInvalidArgument, "a name has {} bytes; at most {} are allowed", s.name.size(),
                   kMaxSubmittedName);
  s.tensors.reserve(request.tensors.size());
  for (std::size_t i = 0; i < request.tensors.size(); ++i) {
    XOE_ASSIGN(auto copy, copy_tensor(request.tensors[i], s, i));
    s.tensors.push_back(std::move(copy));
  }
  XOE_TRY(check_tensors(s, request, rank, ranks));
  XOE_TRY(check_scales(s, request));
  XOE_TRY(check_compression(s, request));
  XOE_TRY(check_rest(s, request, ranks));
  XOE_TRY(check_gpu(s, request));
  s.op.tensors = static_cast<std::uint32_t>(s.tensors.size());
  for (const TensorCopy& t : s.tensors)
    s.sizes.push_back({t.count & kMaxCount, static_cast<std::uint64_t>(t.dtype) & 0xff});
  if (!s.tensors.empty()) {
    s.op.dtype = s.tensors[0].dtype;
    s.op.first_dim = s.tensors[0].rows();
  }
  s.splits.assign(request.splits.begin(), request.splits.end());
  s.dense_shape.assign(request.dense_shape.begin(), request.dense_shape.end());
  if (request.op.kind == OpKind::kAlltoall && s.splits.empty())
    s.splits.assign(static_cast<std::size_t>(ranks), static_cast<std::int64_t>(s.tensors[0].rows()) / ranks);
  s.process_set = request.process_set;
  s.detail = request.detail;
  s.memory = request.memory;
  s.signature = sign(s);
  return s;
}

SubmittedOperation SubmittedOperation::make_internal(InternalKind kind, std::string name,
                                                     std::vector<std::int64_t> argument) {
  SubmittedOperation s;
  s.name = std::move(name);
  s.op.kind = OpKind::kBarrier;
  s.op.internal = kind;
  s.argument = std::move(argument);
  s.signature = sign(s);
  return s;
}

SubmittedOperation SubmittedOperation::make_placeholder(const OpDescriptor& op, std::uint64_t signature,
                                                        std::span<const TensorSize> sizes) {
  SubmittedOperation s;
  s.op = op;
  s.signature = signature;
  s.sizes.assign(sizes.begin(), sizes.end());
  s.placeholder = true;
  return s;
}

bool SubmittedOperation::renewable() const noexcept { return may_be_group(op.kind) && !op.gpu && dense_shape.empty(); }

bool SubmittedOperation::renew(const Request& request, int rank, int ranks) {
  if (request.name != name || !(request.op == asked) || request.tensors.size() != tensors.size() ||
      request.detail != detail || !request.splits.empty() || !request.dense_shape.empty())
    return false;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorArg& given = request.tensors[i];
    TensorCopy& t = tensors[i];
    if (given.dtype != t.dtype || !std::ranges::equal(given.shape, t.shape)) return false;
    t.in = static_cast<const std::byte*>(given.in);
    t.out = static_cast<std::byte*>(given.out);
    const bool usual = t.in != nullptr && t.in == t.out && !gives_output(op.kind);
    if (!usual && !check_memory(*this, i, t, rank, ranks)) return false;
  }
  queue_same_name = request.queue_same_name;
  timeout = request.timeout;
  memory = request.memory;
  return true;
}

std::string SubmittedOperation::describe() const {
  std::string text;
  if (op.internal != InternalKind::kNone)
    return fmt::format("{}([{}])", name.substr(0, name.find(' ')), fmt::join(argument, ", "));
  text = fmt::format("{}(", op_kind_name(op.kind));
  if (tensors.size() > 1) text += fmt::format("{} tensors: ", tensors.size());
  for (std::size_t i = 0; i < tensors.size() && i < 4; ++i) {
    const TensorCopy& t = tensors[i];
    text += fmt::format("{}{} [{}]", i == 0 ? "" : ", ", dtype_name(t.dtype), fmt::join(t.shape, ", "));
  }
  if (tensors.size() > 4) text += ", ...";
  if (!dense_shape.empty()) text += fmt::format(" of [{}]", fmt::join(dense_shape, ", "));
  if (reduces(op.kind)) text += fmt::format(", {}", reduce_op_name(op.reduce));
  if (has_root(op.kind)) text += fmt::format("{}root {}", tensors.empty() ? "" : ", ", op.root);
  if (op.prescale != 1) text += fmt::format(", prescale {}", op.prescale);
  if (op.postscale != 1) text += fmt::format(", postscale {}", op.postscale);
  if (op.gpu) text += ", on a GPU";
  if (op.needs_all_ranks) text += ", of all ranks";
  if (op.compression.kind != Compression::kNone) {
    text += fmt::format(", {}", compression_name(op.compression.kind));
    if (op.compression.error_feedback) text += " with error feedback";
    if (op.compression.kind == Compression::kTopK) text += fmt::format(" ratio {}", op.compression.top_k_ratio);
    if (op.compression.kind == Compression::kPowerSgd) text += fmt::format(" rank {}", op.compression.power_sgd_rank);
  }
  if (!detail.empty()) text += ", " + detail;
  return text + ")";
}

std::string SubmittedOperation::title() const {
  if (op.internal != InternalKind::kNone) return name;
  return fmt::format("{} '{}'", op_kind_name(op.kind), name);
}

std::size_t SubmittedOperation::bytes() const noexcept {
  std::size_t sum = 0;
  for (const TensorCopy& t : tensors) sum += t.bytes();
  return sum;
}

}  // namespace engine
}  // namespace xoe

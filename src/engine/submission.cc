#include "engine/submission.h"

#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/hash.h"
#include "reduce/reduce.h"

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

constexpr std::size_t kMaxName = 1024;
constexpr std::size_t kMaxCount = (std::size_t{1} << 56) - 1;  // memory holds fewer

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

// `what` names the operation in errors.
Result<TensorCopy> copy_tensor(const TensorArg& tensor, std::string_view what, std::size_t index) {
  TensorCopy copy{static_cast<const std::byte*>(tensor.in),
                  static_cast<std::byte*>(tensor.out),
                  tensor.dtype,
                  {tensor.shape.begin(), tensor.shape.end()},
                  1};
  const std::size_t most =
      std::numeric_limits<std::ptrdiff_t>::max() / std::max<std::size_t>(1, dtype_size(tensor.dtype));
  if (dtype_size(tensor.dtype) == 0)
    return failure(Code::kInvalidArgument, "{}: tensor {} has no known element type", what, index);
  for (const std::int64_t dimension : copy.shape) {
    if (dimension < 0)
      return failure(Code::kInvalidArgument, "{}: tensor {} has shape [{}]", what, index, fmt::join(copy.shape, ", "));
    const auto n = static_cast<std::size_t>(dimension);
    if (n != 0 && copy.count > most / n)
      return failure(Code::kInvalidArgument, "{}: tensor {} of shape [{}] is more than memory can hold", what, index,
                     fmt::join(copy.shape, ", "));
    copy.count *= n;
  }
  return copy;
}

// Of what is written to a tensor's `out`, as far as it is known.
std::size_t output_bytes(const TensorCopy& t, OpKind kind, int rank, int ranks) {
  if (kind != OpKind::kReduceScatter || t.rows() == 0) return t.bytes();
  const std::size_t size = static_cast<std::size_t>(ranks), own = static_cast<std::size_t>(rank);
  return (t.rows() / size + (own < t.rows() % size ? 1 : 0)) * (t.bytes() / t.rows());
}

Status check_tensors(const Submission& s, const Request& request, int rank, int ranks) {
  const auto what = s.title();
  const auto count = s.tensors.size();
  const OpKind kind = request.kind;
  const bool none = kind == OpKind::kBarrier || kind == OpKind::kJoin;
  const std::size_t wanted = kind == OpKind::kSparseAllreduce ? 2 : 1;
  if (none ? count != 0 : (may_be_group(kind) ? count == 0 : count != wanted))
    return failure(Code::kInvalidArgument, "{}: takes {}, got {}", what,
                   none                 ? "no tensors"
                   : may_be_group(kind) ? "one tensor or more"
                                        : fmt::format("{} tensor(s)", wanted),
                   count);
  for (std::size_t i = 0; i < count; ++i) {
    const TensorCopy& t = s.tensors[i];
    const bool sends = (kind != OpKind::kBroadcast && kind != OpKind::kBroadcastBytes) || rank == request.root;
    if (sends && t.in == nullptr && t.count != 0)
      return failure(Code::kInvalidArgument, "{}: tensor {} has {} elements and no memory", what, i, t.count);
    if (!gives_output(kind) && t.out == nullptr && t.count != 0)
      return failure(Code::kInvalidArgument, "{}: tensor {} has no memory for its result", what, i);
    if (free_first_dim(kind) && t.shape.empty())
      return failure(Code::kInvalidArgument, "{}: tensor {} is a scalar; it needs a first dimension", what, i);
    if (kind == OpKind::kReduceScatter && t.shape.empty())
      return failure(Code::kInvalidArgument, "{}: tensor {} is a scalar; it cannot be cut", what, i);
    if (t.out != nullptr && t.in != nullptr && t.out < t.in + t.bytes() &&
        t.in < t.out + output_bytes(t, kind, rank, ranks) && (t.out != t.in || gives_output(kind)))
      return failure(Code::kInvalidArgument, "{}: `in` and `out` of tensor {} overlap{}", what, i,
                     gives_output(kind) ? "; this operation does not work in place" : " without being in place");
    if (reduces(kind)) XOE_TRY(reduce::supports(t.dtype, request.reduce));
    if (kind == OpKind::kAdasum && !is_float(t.dtype))
      return failure(Code::kInvalidArgument, "{}: adasum takes float tensors, got {}", what, dtype_name(t.dtype));
    if ((kind == OpKind::kAdasum || request.compression.kind != Compression::kNone) && t.dtype != s.tensors[0].dtype)
      return failure(Code::kInvalidArgument, "{}: the tensors of this group must have one type", what);
  }
  if (kind == OpKind::kSparseAllreduce && (s.tensors[0].dtype != DType::kInt64 || s.tensors[0].shape.size() != 1 ||
                                           s.tensors[0].shape[0] != s.tensors[1].shape[0]))
    return failure(Code::kInvalidArgument, "{}: indices must be int64 [n] and values [n, ...], got {} [{}] and [{}]",
                   what, dtype_name(s.tensors[0].dtype), fmt::join(s.tensors[0].shape, ", "),
                   fmt::join(s.tensors[1].shape, ", "));
  return {};
}

Status check_scales(const Submission& s, const Request& request) {
  const bool scaled = request.prescale != 1 || request.postscale != 1;
  if (!std::isfinite(request.prescale) || !std::isfinite(request.postscale))
    return failure(Code::kInvalidArgument, "{}: prescale {} and postscale {} must be finite", s.title(),
                   request.prescale, request.postscale);
  if (!scaled) return {};
  if (!reduces(request.kind) && request.kind != OpKind::kAdasum)
    return failure(Code::kInvalidArgument, "{}: takes no prescale or postscale", s.title());
  for (const TensorCopy& t : s.tensors)
    if (t.dtype == DType::kBool) return failure(Code::kInvalidArgument, "{}: bool tensors cannot be scaled", s.title());
  return {};
}

Status check_compression(const Submission& s, const Request& request) {
  const auto& c = request.compression;
  if (c.kind == Compression::kNone) return {};
  if (request.kind != OpKind::kAllreduce || (request.reduce != ReduceOp::kSum && request.reduce != ReduceOp::kAverage))
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

Status check_rest(const Submission& s, const Request& request, int ranks) {
  const bool rooted = request.kind == OpKind::kBroadcast || request.kind == OpKind::kBroadcastBytes;
  if (rooted && (request.root < 0 || request.root >= ranks))
    return failure(Code::kInvalidArgument, "{}: root {} is not one of the {} ranks of the process set", s.title(),
                   request.root, ranks);
  if (request.kind != OpKind::kAlltoall) {
    if (!request.splits.empty()) return failure(Code::kInvalidArgument, "{}: takes no splits", s.title());
    return {};
  }
  const auto rows = static_cast<std::int64_t>(s.tensors[0].rows());
  if (request.splits.empty()) {
    if (rows % ranks != 0)
      return failure(Code::kInvalidArgument, "{}: {} rows cannot be cut into {} equal parts; give splits", s.title(),
                     rows, ranks);
    return {};
  }
  std::int64_t sum = 0;
  for (const std::int64_t split : request.splits) {
    if (split < 0 || split > rows)
      return failure(Code::kInvalidArgument, "{}: a split of {} of {} rows", s.title(), split, rows);
    sum += split;
  }
  if (static_cast<int>(request.splits.size()) != ranks || sum != rows)
    return failure(Code::kInvalidArgument, "{}: {} splits that add up to {} for {} ranks and {} rows", s.title(),
                   request.splits.size(), sum, ranks, rows);
  return {};
}

// What NCCL does without kernels of ours.
Status check_gpu(const Submission& s, const Request& request) {
  if (!request.gpu) return {};
  const OpKind kind = request.kind;
  const bool moves = kind == OpKind::kBroadcast || kind == OpKind::kAllgather || kind == OpKind::kAlltoall;
  if ((!moves && !reduces(kind)) || request.compression.kind != Compression::kNone)
    return failure(Code::kUnsupported, "{}: {}{} takes no GPU memory; copy the tensors to host memory", s.title(),
                   op_kind_name(kind), moves || reduces(kind) ? " with compression" : "");
  const bool scaled = request.prescale != 1 || request.postscale != 1;
  const bool linear = request.reduce == ReduceOp::kSum || request.reduce == ReduceOp::kAverage;
  for (std::size_t i = 0; i < s.tensors.size(); ++i) {
    const TensorCopy& t = s.tensors[i];
    if (gives_output(kind) && t.out == nullptr && t.count != 0 && !request.allocator)
      return failure(Code::kInvalidArgument,
                     "{}: tensor {} has no GPU memory for its result, and no allocator is given", s.title(), i);
    if (!reduces(kind)) continue;
    const bool is_wide = t.dtype == DType::kFloat32 || t.dtype == DType::kFloat64;  // NCCL rounds a factor to the type
    if (t.dtype == DType::kInt16 || (!is_float(t.dtype) && request.reduce == ReduceOp::kAverage) ||
        (scaled && !(linear && is_wide)))
      return failure(Code::kUnsupported, "{}: {}{} of {} is not made in GPU memory; copy the tensors to host memory",
                     s.title(), scaled ? "a scaled " : "", reduce_op_name(request.reduce), dtype_name(t.dtype));
  }
  return {};
}

void put_hash(std::uint64_t& sum, std::uint64_t value) { sum = mix(sum ^ (value + 0x9e3779b97f4a7c15u)); }

std::uint64_t sign(const Submission& s) {
  const Traits& t = s.traits;
  std::uint64_t sum = static_cast<std::uint64_t>(t.kind);
  for (const std::uint64_t part :
       {static_cast<std::uint64_t>(t.reduce), static_cast<std::uint64_t>(t.compression),
        static_cast<std::uint64_t>(t.error_feedback), static_cast<std::uint64_t>(t.internal),
        static_cast<std::uint64_t>(t.root), static_cast<std::uint64_t>(t.tensors), static_cast<std::uint64_t>(t.gpu),
        static_cast<std::uint64_t>(t.codec_rank), std::bit_cast<std::uint64_t>(t.codec_ratio),
        std::bit_cast<std::uint64_t>(s.prescale), std::bit_cast<std::uint64_t>(s.postscale)})
    put_hash(sum, part);
  for (const TensorCopy& tensor : s.tensors) {
    if (t.kind == OpKind::kBroadcastBytes) break;  // only the root knows
    put_hash(sum, static_cast<std::uint64_t>(tensor.dtype));
    put_hash(sum, tensor.shape.size());
    for (std::size_t d = free_first_dim(t.kind) ? 1 : 0; d < tensor.shape.size(); ++d)
      put_hash(sum, static_cast<std::uint64_t>(tensor.shape[d]));
  }
  for (const std::int64_t value : s.argument) put_hash(sum, static_cast<std::uint64_t>(value));
  return sum;
}

}  // namespace

std::size_t TensorCopy::row_elements() const noexcept {
  std::size_t elements = 1;
  for (std::size_t d = 1; d < shape.size(); ++d) elements *= static_cast<std::size_t>(shape[d]);
  return elements;
}

Result<std::shared_ptr<Submission>> Submission::make(const Request& request, std::string name, int rank, int ranks) {
  auto s = std::make_shared<Submission>();
  s->name = std::move(name);
  s->traits.kind = request.kind;
  if (s->name.size() > kMaxName)
    return failure(Code::kInvalidArgument, "a name has {} bytes; at most {} are allowed", s->name.size(), kMaxName);
  s->tensors.reserve(request.tensors.size());
  for (std::size_t i = 0; i < request.tensors.size(); ++i) {
    XOE_ASSIGN(auto copy, copy_tensor(request.tensors[i], s->title(), i));
    s->tensors.push_back(std::move(copy));
  }
  XOE_TRY(check_tensors(*s, request, rank, ranks));
  XOE_TRY(check_scales(*s, request));
  XOE_TRY(check_compression(*s, request));
  XOE_TRY(check_rest(*s, request, ranks));
  XOE_TRY(check_gpu(*s, request));
  s->compression = request.compression;
  const auto& c = request.compression;
  s->traits.reduce = reduces(request.kind) ? request.reduce : ReduceOp::kSum;
  s->traits.compression = c.kind;
  s->traits.error_feedback = c.kind != Compression::kNone && c.error_feedback ? 1 : 0;
  if (c.kind == Compression::kTopK) s->traits.codec_ratio = c.top_k_ratio;
  if (c.kind == Compression::kPowerSgd) s->traits.codec_rank = c.power_sgd_rank;
  s->traits.root = request.kind == OpKind::kBroadcast || request.kind == OpKind::kBroadcastBytes ? request.root : 0;
  s->traits.gpu = request.gpu ? 1 : 0;
  if (request.gpu) s->traits.gpu_factor = request.prescale * request.postscale;
  s->traits.tensors = static_cast<std::uint32_t>(s->tensors.size());
  for (const TensorCopy& t : s->tensors)
    s->sizes.push_back({t.count & kMaxCount, static_cast<std::uint64_t>(t.dtype) & 0xff});
  if (!s->tensors.empty()) {
    s->traits.dtype = s->tensors[0].dtype;
    s->traits.first_dim = s->tensors[0].rows();
  }
  s->splits.assign(request.splits.begin(), request.splits.end());
  if (request.kind == OpKind::kAlltoall && s->splits.empty())
    s->splits.assign(static_cast<std::size_t>(ranks), static_cast<std::int64_t>(s->tensors[0].rows()) / ranks);
  s->prescale = request.prescale;
  s->postscale = request.postscale;
  s->process_set = request.process_set;
  s->allocator_ = request.allocator;
  s->callback_ = request.callback;
  s->has_callback_ = static_cast<bool>(request.callback);
  s->signature = sign(*s);
  return s;
}

std::shared_ptr<Submission> Submission::make_internal(InternalKind kind, std::string name,
                                                      std::vector<std::int64_t> argument) {
  auto s = std::make_shared<Submission>();
  s->name = std::move(name);
  s->traits.kind = OpKind::kBarrier;
  s->traits.internal = static_cast<std::uint8_t>(kind);
  s->argument = std::move(argument);
  s->signature = sign(*s);
  return s;
}

ReadinessTable::Arrival Submission::arrival() const {
  return {signature, submitted.time_since_epoch().count(), traits, sizes, [this] { return describe(); }};
}

std::string Submission::describe() const {
  std::string text;
  if (traits.internal != 0) return fmt::format("{}([{}])", name.substr(0, name.find(' ')), fmt::join(argument, ", "));
  text = fmt::format("{}(", op_kind_name(traits.kind));
  if (tensors.size() > 1) text += fmt::format("{} tensors: ", tensors.size());
  for (std::size_t i = 0; i < tensors.size() && i < 4; ++i) {
    const TensorCopy& t = tensors[i];
    text += fmt::format("{}{} [{}]", i == 0 ? "" : ", ", dtype_name(t.dtype), fmt::join(t.shape, ", "));
  }
  if (tensors.size() > 4) text += ", ...";
  if (reduces(traits.kind)) text += fmt::format(", {}", reduce_op_name(traits.reduce));
  if (traits.kind == OpKind::kBroadcast || traits.kind == OpKind::kBroadcastBytes)
    text += fmt::format("{}root {}", tensors.empty() ? "" : ", ", traits.root);
  if (prescale != 1) text += fmt::format(", prescale {}", prescale);
  if (postscale != 1) text += fmt::format(", postscale {}", postscale);
  if (traits.gpu != 0) text += ", on a GPU";
  if (traits.compression != Compression::kNone) {
    text += fmt::format(", {}", compression_name(traits.compression));
    if (traits.error_feedback != 0) text += " with error feedback";
    if (traits.compression == Compression::kTopK) text += fmt::format(" ratio {}", traits.codec_ratio);
    if (traits.compression == Compression::kPowerSgd) text += fmt::format(" rank {}", traits.codec_rank);
  }
  return text + ")";
}

std::string Submission::title() const {
  if (traits.internal != 0) return name;
  return fmt::format("{} '{}'", op_kind_name(traits.kind), name);
}

void Submission::complete(Status status) noexcept {
  status_ = std::move(status);
  if (callback_) {
    try {
      callback_(status_);
    } catch (...) {
      if (status_) status_ = failure(Code::kInternal, title() + ": its callback threw an exception");
    }
    callback_ = {};  // what it holds goes before waiters do
  }
  done_.store(true, std::memory_order_release);
}

std::byte* Submission::make_output(std::size_t index, std::vector<std::int64_t> shape, DType dtype) {
  std::size_t bytes = dtype_size(dtype);
  for (const std::int64_t dimension : shape) bytes *= static_cast<std::size_t>(dimension);
  std::byte* data = index < tensors.size() ? tensors[index].out : nullptr;
  if (data == nullptr && allocator_ && !allocator_refused_) {
    try {
      data = static_cast<std::byte*>(allocator_(index, shape, dtype));
    } catch (...) {
      data = nullptr;
    }
    allocator_refused_ = data == nullptr && bytes != 0;
  }
  if (data == nullptr && traits.gpu == 0) {
    owned_.push_back(std::make_unique_for_overwrite<std::byte[]>(std::max<std::size_t>(bytes, 1)));
    data = owned_.back().get();
  }
  if (outputs.size() <= index) outputs.resize(index + 1);
  outputs[index] = {data, dtype, std::move(shape)};
  return data;
}

}  // namespace engine
}  // namespace xoe

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/backend/hierarchical/algorithms.h"
#include "core/base/error.h"
#include "core/reduce/reduce.h"

namespace xoe::hierarchical {
namespace {

// Shares of up to this many bytes are exchanged whole, and each host reduces them itself.
constexpr std::size_t kSmall = std::size_t{8} << 10;

// Integers toward zero.
template <class Out, class In>
void divide(const In* in, void* out, std::size_t count, In by) {
  for (std::size_t i = 0; i < count; ++i) static_cast<Out*>(out)[i] = static_cast<Out>(in[i] / by);
}

// NaN counts: a sum of infinite sums may be one.
template <class T>
bool any_beyond(const T* values, std::size_t count, std::size_t hosts) {
  const T most = std::numeric_limits<T>::max() / static_cast<T>(hosts + 1);
  int beyond = 0;
  for (std::size_t i = 0; i < count; ++i) beyond |= static_cast<int>(!(std::abs(values[i]) <= most));
  return beyond != 0;
}

template <class Body>
void with_integer(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kUint8: return body(std::uint8_t{});
    case DType::kInt8: return body(std::int8_t{});
    case DType::kInt16: return body(std::int16_t{});
    case DType::kInt32: return body(std::int32_t{});
    default: return body(std::int64_t{});
  }
}

// A small share: every member of the rail receives all shares and reduces them in the order of the hosts. Up to
// OperationHeader::kInline bytes travel with the headers.
Result<bool> reduce_small(Rails& rails, const Operation& op, Tensor share, ReduceOp reduction, Sums sums) {
  const std::size_t bytes = share.count * dtype_size(share.dtype);
  const auto hosts = index(rails.placement().host_count());
  const std::span mine(static_cast<const std::byte*>(share.data), bytes);
  const bool fits = bytes <= OperationHeader::kInline;
  XOE_ASSIGN(const auto headers, rails.agree(op, fits ? mine : std::span<const std::byte>()));
  if (bytes == 0) return true;
  std::vector<std::byte> gathered;
  std::vector<const void*> ins;
  if (fits) {
    for (const OperationHeader& header : headers) ins.push_back(header.data);
  } else {
    gathered.resize(hosts * bytes);
    const std::vector<std::size_t> counts(hosts, bytes);
    XOE_TRY(rails.on_rail(op, make_allgather(ConstTensor(share.data, bytes, DType::kUint8),
                                             Tensor(gathered.data(), gathered.size(), DType::kUint8), counts)));
    for (std::size_t host = 0; host < hosts; ++host) ins.push_back(gathered.data() + host * bytes);
  }
  ins[index(rails.placement().host())] = share.data;  // the output, which holds the same
  if (sums == Sums::kInRange)
    for (const void* in : ins)
      if (has_large(rails, ConstTensor(in, share.count, share.dtype))) return false;
  void* const out[] = {share.data};
  reduce::reduce_into(out, ins, share.count, share.dtype, reduction);
  return true;
}

// Reduces this rail's share, in place, over all hosts.
Result<bool> reduce_share(Rails& rails, const Operation& op, Tensor share, ReduceOp reduction, Sums sums) {
  if (share.count * dtype_size(share.dtype) <= kSmall) return reduce_small(rails, op, share, reduction, sums);
  XOE_ASSIGN(const bool in_range, agree_on_range(rails, op, share, sums));
  if (in_range) XOE_TRY(rails.on_rail(op, make_allreduce(share, share, reduction)));
  return in_range;
}

// Reduce-scatter within each host, so that rail k has its share of the host's result; allreduce on each rail; allgather
// within each host. False: with Sums::kInRange a sum may leave the range of its type; `in` and `out` are as they were,
// or both are `in`.
Result<bool> reduce_over_rails(Rails& rails, const Operation& op, ConstTensor in, void* out, ReduceOp reduction,
                               Sums sums = Sums::kAny) {
  const Placement& placement = rails.placement();
  const DType dtype = in.dtype;
  if (placement.local_size() == 1) {
    if (in.data != out && in.count != 0) std::memcpy(out, in.data, in.count * dtype_size(dtype));
    return reduce_share(rails, op, Tensor(out, in.count, dtype), reduction, sums);
  }
  const auto shares = rails.shares(in.count, dtype);
  const std::size_t count = shares[index(placement.local_rank())];
  XOE_ASSIGN(std::byte* const memory, rails.scratch(count * dtype_size(dtype)));
  const Tensor share(memory, count, dtype);
  XOE_TRY(rails.on_host(op, make_reduce_scatter(in, share, shares, reduction)));
  bool reduced = true;
  if (rails.leads() || count > 0) {
    XOE_ASSIGN(reduced, reduce_share(rails, op, share, reduction, sums));
  }
  if (sums == Sums::kInRange) {
    XOE_ASSIGN(reduced, all_on_host(rails, op, reduced));
  }
  if (reduced) XOE_TRY(rails.on_host(op, make_allgather(share, Tensor(out, in.count, dtype), shares)));
  return reduced;
}

__extension__ using Int128 = __int128;

// The upper and the lower halves are summed apart, which does not overflow.
Status average_int64(Rails& rails, const Operation& op) {
  const Collective& c = op.collective;
  const auto* const in = static_cast<const std::int64_t*>(c.in);
  std::vector<std::int64_t> halves(2 * c.in_count);
  for (std::size_t i = 0; i < c.in_count; ++i) {
    halves[2 * i] = in[i] >> 32;
    halves[2 * i + 1] = in[i] & 0xFFFFFFFF;
  }
  XOE_TRY(reduce_over_rails(rails, op, ConstTensor(halves.data(), halves.size()), halves.data(), ReduceOp::kSum));
  for (std::size_t i = 0; i < c.in_count; ++i) {
    const Int128 sum = Int128{halves[2 * i]} * (Int128{1} << 32) + halves[2 * i + 1];
    static_cast<std::int64_t*>(c.out)[i] = static_cast<std::int64_t>(sum / rails.size());
  }
  return {};
}

// Sums in 64 bits, which hold the sum of every smaller type.
Status average_integers(Rails& rails, const Operation& op) {
  if (op.collective.dtype == DType::kInt64) return average_int64(rails, op);
  const Collective& c = op.collective;
  std::vector<std::int64_t> wide(c.in_count);
  with_integer(c.dtype,
               [&](auto type) { std::copy_n(static_cast<const decltype(type)*>(c.in), wide.size(), wide.data()); });
  XOE_TRY(reduce_over_rails(rails, op, ConstTensor(wide.data(), wide.size()), wide.data(), ReduceOp::kSum));
  const auto size = static_cast<std::int64_t>(rails.size());
  with_integer(c.dtype, [&](auto type) { divide<decltype(type)>(wide.data(), c.out, wide.size(), size); });
  return {};
}

// An average some of whose sums may leave the range of T: those that do are computed from inputs that are scaled by a
// power of two, which gives the bits of a type with larger exponents. `out` may be `in`.
template <class T>
Status average_large(Rails& rails, const Operation& op, const T* in, T* out, std::size_t count) {
  const auto size = static_cast<T>(rails.size());
  const T scale = T{1} / static_cast<T>(std::bit_ceil(static_cast<unsigned>(rails.size()) + 1));
  std::vector<T> sums(count), scaled(count);
  std::transform(in, in + count, scaled.begin(), [scale](T value) { return value * scale; });
  XOE_TRY(reduce_over_rails(rails, op, ConstTensor(in, count), sums.data(), ReduceOp::kSum));
  XOE_TRY(reduce_over_rails(rails, op, ConstTensor(scaled.data(), count), scaled.data(), ReduceOp::kSum));
  for (std::size_t i = 0; i < count; ++i) {
    const bool overflowed = !std::isfinite(sums[i]) && std::isfinite(scaled[i]);
    out[i] = overflowed ? scaled[i] / (size * scale) : sums[i] / size;
    // It was at most the largest finite number before it was rounded.
    if (overflowed && std::isinf(out[i])) out[i] = std::copysign(std::numeric_limits<T>::max(), out[i]);
  }
  return {};
}

template <class T>
Status average(Rails& rails, const Operation& op) {
  const Collective& c = op.collective;
  XOE_ASSIGN(const bool summed, reduce_over_rails(rails, op, ConstTensor(c.in, c.in_count, c.dtype), c.out,
                                                  ReduceOp::kSum, Sums::kInRange));
  if (!summed) return average_large(rails, op, static_cast<const T*>(c.in), static_cast<T*>(c.out), c.in_count);
  average_floats(rails, c);
  return {};
}

// The sums of a share, float32, become the share's result on all members of the rail. Between the hosts the sums travel
// in float32, and the rounded results of larger shares in their own type. False as in reduce_over_rails().
Result<bool> reduce_and_round(Rails& rails, const Operation& op, Tensor sums, Tensor share, ReduceOp reduction,
                              Sums range) {
  const auto round = [&](std::size_t from, std::size_t count) {
    float* const values = static_cast<float*>(sums.data) + from;
    if (op.collective.op == ReduceOp::kAverage) divide<float>(values, values, count, static_cast<float>(rails.size()));
    reduce::cast(values, DType::kFloat32, net::at(share.data, from * dtype_size(share.dtype)), share.dtype, count);
  };
  if (sums.count * sizeof(float) <= kSmall) {
    XOE_ASSIGN(const bool reduced, reduce_small(rails, op, sums, reduction, range));
    if (reduced) round(0, sums.count);
    return reduced;
  }
  XOE_ASSIGN(const bool in_range, agree_on_range(rails, op, sums, range));
  if (!in_range) return false;
  const auto parts = equal_parts(sums.count, index(rails.placement().host_count()));
  const std::size_t start = sum_before(parts, rails.placement().host());
  const std::size_t count = parts[index(rails.placement().host())];
  XOE_TRY(rails.on_rail(
      op, make_reduce_scatter(sums, Tensor(static_cast<float*>(sums.data) + start, count), parts, reduction)));
  round(start, count);
  const ConstTensor part(net::at(share.data, start * dtype_size(share.dtype)), count, share.dtype);
  XOE_TRY(rails.on_rail(op, make_allgather(part, share, parts)));
  return true;
}

// From the widened inputs of an average of bfloat16.
Status average_large_short(Rails& rails, const Operation& op, ConstTensor wide) {
  const Collective& c = op.collective;
  std::vector<float> result(wide.count);
  XOE_TRY(average_large(rails, op, static_cast<const float*>(wide.data), result.data(), wide.count));
  reduce::cast(result.data(), DType::kFloat32, c.out, c.dtype, wide.count);
  return {};
}

// Sums, averages and products of float16 and bfloat16, which are rounded once.
Status reduce_short_floats(Rails& rails, const Operation& op) {
  const Collective& c = op.collective;
  const ReduceOp reduction = c.op == ReduceOp::kAverage ? ReduceOp::kSum : c.op;
  const Widened wide(c);
  const auto shares = rails.shares(c.in_count, DType::kFloat32);
  const std::size_t count = shares[index(rails.placement().local_rank())];
  XOE_ASSIGN(std::byte* const memory, rails.scratch(count * (sizeof(float) + dtype_size(c.dtype))));
  const Tensor sums(memory, count, DType::kFloat32), share(memory + count * sizeof(float), count, c.dtype);
  XOE_TRY(rails.on_host(op, make_reduce_scatter(wide.tensor(), sums, shares, reduction)));
  const Sums range = range_of(c);
  bool reduced = true;
  if (rails.leads() || count > 0) {
    XOE_ASSIGN(reduced, reduce_and_round(rails, op, sums, share, reduction, range));
  }
  if (range == Sums::kInRange) {
    XOE_ASSIGN(reduced, all_on_host(rails, op, reduced));
  }
  if (!reduced) return average_large_short(rails, op, wide.tensor());
  return rails.on_host(op, make_allgather(share, Tensor(c.out, c.out_count, c.dtype), shares));
}

}  // namespace

void average_floats(const Rails& rails, const Collective& c) {
  if (c.dtype == DType::kFloat32)
    divide<float>(static_cast<const float*>(c.out), c.out, c.out_count, static_cast<float>(rails.size()));
  else
    divide<double>(static_cast<const double*>(c.out), c.out, c.out_count, static_cast<double>(rails.size()));
}

Sums range_of(const Collective& c) noexcept {
  return c.op == ReduceOp::kAverage && c.dtype != DType::kFloat16 ? Sums::kInRange : Sums::kAny;
}

bool has_large(const Rails& rails, ConstTensor values) {
  const std::size_t hosts = rails.placement().ranks_of.size();
  if (values.dtype == DType::kFloat32) return any_beyond(static_cast<const float*>(values.data), values.count, hosts);
  return any_beyond(static_cast<const double*>(values.data), values.count, hosts);
}

Result<bool> agree_on_range(Rails& rails, const Operation& op, ConstTensor share, Sums sums) {
  const std::byte large{sums == Sums::kInRange && has_large(rails, share)};
  XOE_ASSIGN(const auto headers, rails.agree(op, std::span(&large, 1)));
  return std::ranges::all_of(headers, [](const OperationHeader& header) { return header.data[0] == std::byte{}; });
}

Result<bool> all_on_host(Rails& rails, const Operation& op, bool mine) {
  std::uint8_t all = mine ? 1 : 0;
  const Tensor flag(&all, 1, DType::kUint8);
  XOE_TRY(rails.on_host(op, make_allreduce(flag, flag, ReduceOp::kMin)));
  return all != 0;
}

Widened::Widened(const Collective& c) : count_(c.in_count), values_(new float[c.in_count]) {
  reduce::cast(c.in, c.dtype, values_.get(), DType::kFloat32, count_);
}

bool rounds(const Collective& c) noexcept {
  const bool short_float = c.dtype == DType::kFloat16 || c.dtype == DType::kBfloat16;
  return short_float && !traits_of(c.op).selects;
}

Status allreduce(Rails& rails, const Operation& op) {
  const Collective& c = op.collective;
  const ConstTensor in(c.in, c.in_count, c.dtype);
  const bool average_of_floats = c.op == ReduceOp::kAverage && !is_integer(c.dtype);
  // A rail of all ranks does what a host does, with the same bits.
  if (rails.one_rank_each() && (rounds(c) || average_of_floats)) {
    XOE_TRY(reduce_over_rails(rails, op, in, c.out, c.op));
    return {};
  }
  if (rounds(c)) return reduce_short_floats(rails, op);
  if (average_of_floats) return c.dtype == DType::kFloat32 ? average<float>(rails, op) : average<double>(rails, op);
  if (c.op == ReduceOp::kAverage) return average_integers(rails, op);
  XOE_TRY(reduce_over_rails(rails, op, in, c.out, c.op));
  return {};
}

}  // namespace xoe::hierarchical

#include "core/comm/check.h"

#include <cstdint>
#include <limits>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe {
namespace {

Status check_table(const Collective& c, const Topology& topology, std::string_view table_name,
                   std::span<const std::size_t> counts, std::size_t expected, std::string_view buffer) {
  const auto what = collective_name(c.kind);
  if (counts.size() != index(topology.size))
    return failure(Code::kInvalidArgument, "{}: {} has a length of {} for {}", what, table_name, counts.size(),
                   counted(topology.size, "rank"));
  XOE_ASSIGN(const std::size_t total, sum_counts(what, counts));
  if (total != expected)
    return failure(Code::kInvalidArgument, "{}: {} sums to {}, but `{}` has {}", what, table_name, total, buffer,
                   counted(static_cast<std::int64_t>(expected), "element"));
  return {};
}

Status check_own_count(const Collective& c, const Topology& topology, std::size_t count, std::string_view buffer) {
  const std::size_t own = c.send_counts[index(topology.rank)];
  if (own != count)
    return failure(Code::kInvalidArgument, "{}: counts[{}] is {}, but `{}` of this rank has {}",
                   collective_name(c.kind), topology.rank, own, buffer,
                   counted(static_cast<std::int64_t>(count), "element"));
  return {};
}

// The offset of the smaller buffer within the larger one when the collective is in place; nullopt: it cannot be.
std::optional<std::size_t> in_place_offset(const Collective& c, const Topology& topology) {
  if (c.kind == CollectiveKind::kAlltoall) return std::nullopt;
  if (c.kind == CollectiveKind::kAllreduce || c.kind == CollectiveKind::kBroadcast) return 0;
  std::size_t offset = 0;
  for (int r = 0; r < topology.rank; ++r) offset += c.send_counts[index(r)];
  return offset * dtype_size(c.dtype);
}

Status check_overlap(const Collective& c, const Topology& topology) {
  const auto in = reinterpret_cast<std::uintptr_t>(c.in), out = reinterpret_cast<std::uintptr_t>(c.out);
  const std::size_t in_bytes = c.in_count * dtype_size(c.dtype), out_bytes = c.out_count * dtype_size(c.dtype);
  if (in_bytes == 0 || out_bytes == 0 || in + in_bytes <= out || out + out_bytes <= in) return {};
  if (const auto offset = in_place_offset(c, topology)) {
    const bool gathers = c.kind == CollectiveKind::kAllgather;
    if ((gathers ? in - out : out - in) == *offset) return {};
  }
  return failure(Code::kInvalidArgument, "{}: `in` and `out` overlap without being in place", collective_name(c.kind));
}

}  // namespace

Result<std::size_t> sum_counts(std::string_view what, std::span<const std::size_t> counts) {
  std::size_t total = 0;
  for (const std::size_t count : counts) {
    if (count > std::numeric_limits<std::ptrdiff_t>::max() - total)
      return failure(Code::kInvalidArgument, "{}: counts add up to more than memory can hold", what);
    total += count;
  }
  return total;
}

Result<Collective> make_checked_segments(std::span<const Segment> segments, DType dtype, ReduceOp op,
                                         const OpOptions& options) {
  std::vector<std::size_t> counts;
  for (const Segment& s : segments) {
    if (s.count != 0 && (s.in == nullptr || s.out == nullptr))
      return failure(Code::kInvalidArgument, "allreduce: an array of {} elements has no memory", s.count);
    counts.push_back(s.count);
  }
  XOE_ASSIGN(const std::size_t total, sum_counts("allreduce", counts));
  if (total > std::numeric_limits<std::ptrdiff_t>::max() / std::max<std::size_t>(1, dtype_size(dtype)))
    return failure(Code::kInvalidArgument, "allreduce: {} elements are more than memory can hold", total);
  Collective c = make_allreduce(ConstTensor(nullptr, total, dtype), Tensor(nullptr, total, dtype), op, options);
  c.segments = segments;
  return c;
}

Status check_pair(std::string_view what, const ConstTensor& in, const Tensor& out) {
  if (in.dtype == out.dtype) return {};
  return failure(Code::kInvalidArgument, "{}: `in` is {}, `out` is {}", what, dtype_name(in.dtype),
                 dtype_name(out.dtype));
}

Status check_collective(const Collective& c, const Topology& topology) {
  const auto what = collective_name(c.kind);
  const std::size_t most = std::numeric_limits<std::ptrdiff_t>::max() / dtype_size(c.dtype);
  if (c.in_count > most || c.out_count > most)
    return failure(Code::kInvalidArgument, "{}: {} elements are more than memory can hold", what,
                   std::max(c.in_count, c.out_count));
  if ((c.in == nullptr && c.in_count != 0) || (c.out == nullptr && c.out_count != 0))
    return failure(Code::kInvalidArgument, "{}: `{}` is null but has {} elements", what, c.in == nullptr ? "in" : "out",
                   c.in == nullptr ? c.in_count : c.out_count);
  switch (c.kind) {
    case CollectiveKind::kAllreduce:
      if (c.in_count != c.out_count)
        return failure(Code::kInvalidArgument, "{}: `in` has {}, `out` {}", what,
                       counted(static_cast<std::int64_t>(c.in_count), "element"), c.out_count);
      break;
    case CollectiveKind::kBroadcast:
      if (c.root < 0 || c.root >= topology.size)
        return failure(Code::kInvalidArgument, "{}: root {} is not one of the {} ranks", what, c.root, topology.size);
      break;
    case CollectiveKind::kAllgather:
      XOE_TRY(check_table(c, topology, "counts", c.send_counts, c.out_count, "out"));
      XOE_TRY(check_own_count(c, topology, c.in_count, "in"));
      break;
    case CollectiveKind::kReduceScatter:
      XOE_TRY(check_table(c, topology, "counts", c.send_counts, c.in_count, "in"));
      XOE_TRY(check_own_count(c, topology, c.out_count, "out"));
      break;
    case CollectiveKind::kAlltoall: {
      XOE_TRY(check_table(c, topology, "send_counts", c.send_counts, c.in_count, "in"));
      XOE_TRY(check_table(c, topology, "recv_counts", c.recv_counts, c.out_count, "out"));
      const auto me = static_cast<std::size_t>(topology.rank);
      if (c.send_counts[me] != c.recv_counts[me])
        return failure(Code::kInvalidArgument, "{}: this rank sends itself {} but expects {}", what,
                       counted(static_cast<std::int64_t>(c.send_counts[me]), "element"), c.recv_counts[me]);
      break;
    }
    case CollectiveKind::kBarrier: break;
  }
  return check_overlap(c, topology);
}

}  // namespace xoe

#include "core/backend/hierarchical/algorithms.h"

#include <cstring>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::hierarchical {
namespace {

// Ranks check their tables against each other's first: sends between two ranks must match.
Status alltoall(Rails& rails, const Operation& op) {
  const Collective& c = op.collective;
  XOE_ASSIGN(net::Net* const net, rails.all_ranks());
  XOE_TRY(rails.agree_all(*net, op));
  const auto size = index(rails.size());
  const std::vector<std::size_t> ones(size, 1);
  std::vector<std::size_t> sent(size);
  XOE_TRY(rails.on(*net, op,
                   make_alltoall(ConstTensor(c.send_counts.data(), size, DType::kInt64), ones,
                                 Tensor(sent.data(), size, DType::kInt64), ones)));
  for (std::size_t r = 0; r < size; ++r)
    if (sent[r] != c.recv_counts[r])
      return failure(Code::kInvalidArgument, "{}: rank {} sends {} to rank {}, which expects {}", op.title(), r,
                     counted(static_cast<std::int64_t>(sent[r]), "element"), rails.placement().rank, c.recv_counts[r]);
  return rails.on(*net, op, c);
}

Status barrier(Rails& rails, const Operation& op) {
  const bool alone = rails.placement().local_size() == 1;
  if (!alone) XOE_TRY(rails.on_host(op, {}));
  if (rails.leads()) XOE_TRY(rails.agree(op));
  return alone ? Status() : rails.on_host(op, {});
}

Status run_flat(Rails& rails, const Operation& op) {
  XOE_ASSIGN(net::Net* const net, rails.all_ranks());
  XOE_TRY(rails.agree_all(*net, op));
  if (op.collective.kind == CollectiveKind::kBarrier) return {};  // all ranks have come
  return rails.on(*net, op, op.collective);
}

// Copies the segments into one array, and its result back.
Status run_packed(Rails& rails, const Operation& op) {
  const Collective& c = op.collective;
  std::vector<std::byte> memory(c.in_count * dtype_size(c.dtype));
  const auto each = [&](auto&& copy) {
    std::byte* at = memory.data();
    for (const Segment& segment : c.segments) {
      const std::size_t bytes = segment.count * dtype_size(c.dtype);
      if (bytes != 0) copy(segment, at, bytes);
      at += bytes;
    }
  };
  each([](const Segment& s, std::byte* at, std::size_t bytes) { std::memcpy(at, s.in, bytes); });
  Collective whole = c;
  whole.segments = {};
  whole.in = whole.out = memory.data();
  XOE_TRY(run(rails, op.with(whole)));
  each([](const Segment& s, const std::byte* at, std::size_t bytes) { std::memcpy(s.out, at, bytes); });
  return {};
}

}  // namespace

Status run(Rails& rails, const Operation& op) {
  if (!op.collective.segments.empty()) return run_packed(rails, op);
  if (op.collective.kind == CollectiveKind::kAlltoall) return alltoall(rails, op);
  if (rails.routing().flat) return run_flat(rails, op);
  if (rails.routing().in_rank_order && is_reduction(op.collective.kind)) return reduce_in_rank_order(rails, op);
  switch (op.collective.kind) {
    case CollectiveKind::kAllreduce: return allreduce(rails, op);
    case CollectiveKind::kBroadcast: return broadcast(rails, op);
    case CollectiveKind::kAllgather: return allgather(rails, op);
    case CollectiveKind::kReduceScatter: return reduce_scatter(rails, op);
    default: return barrier(rails, op);
  }
}

}  // namespace xoe::hierarchical

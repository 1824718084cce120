#include <algorithm>
#include <cstring>

#include "core/backend/hierarchical/algorithms.h"
#include "core/base/error.h"
#include "core/reduce/reduce.h"

namespace xoe::hierarchical {
namespace {

// How many elements [a, a + a_count) and [b, b + b_count) have in common.
std::size_t overlap(std::size_t a, std::size_t a_count, std::size_t b, std::size_t b_count) {
  const std::size_t from = std::max(a, b), to = std::min(a + a_count, b + b_count);
  return to > from ? to - from : 0;
}

// The input with the blocks of the hosts one after the other; a copy in `memory` where ranks are not in that order.
const std::byte* input_in_blocks(const Placement& placement, const Collective& c, std::vector<std::byte>& memory) {
  const auto* const in = static_cast<const std::byte*>(c.in);
  if (placement.in_blocks()) return in;
  const std::size_t element = dtype_size(c.dtype);
  std::vector<std::size_t> starts(c.send_counts.size());
  std::exclusive_scan(c.send_counts.begin(), c.send_counts.end(), starts.begin(), std::size_t{0});
  memory.resize(c.in_count * element);
  std::byte* to = memory.data();
  for (const auto& ranks : placement.ranks_of)
    for (const int rank : ranks) {
      const std::size_t bytes = c.send_counts[index(rank)] * element;
      if (bytes != 0) std::memcpy(to, in + starts[index(rank)] * element, bytes);
      to += bytes;
    }
  return memory.data();
}

// `share`: this rail's share of the host's block. Each rank receives its own elements from all rails.
Status exchange_shares(Rails& rails, const Operation& op, ConstTensor share, const std::vector<std::size_t>& by_rail) {
  const Collective& c = op.collective;
  const auto& ranks = rails.placement().local_ranks();
  const auto own = index(rails.placement().local_rank());
  std::vector<std::size_t> counts, starts(ranks.size()), rail_starts(ranks.size());
  for (const int rank : ranks) counts.push_back(c.send_counts[index(rank)]);
  std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), std::size_t{0});
  std::exclusive_scan(by_rail.begin(), by_rail.end(), rail_starts.begin(), std::size_t{0});
  std::vector<std::size_t> send_counts, recv_counts;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    send_counts.push_back(overlap(rail_starts[own], by_rail[own], starts[r], counts[r]));
    recv_counts.push_back(overlap(rail_starts[r], by_rail[r], starts[own], counts[own]));
  }
  return rails.on_host(op, make_alltoall(share, send_counts, Tensor(c.out, c.out_count, c.dtype), recv_counts));
}

// Within each host, rail k reduces its share of every block; on the rail, each host receives the result of its own
// block; within the host again, the ranks exchange the shares for their own elements. False: with Sums::kInRange a sum
// may leave the range of its type; nothing is written.
Result<bool> reduce_scatter_shares(Rails& rails, const Operation& op, ReduceOp reduction, Sums sums) {
  const Collective& c = op.collective;
  const Placement& placement = rails.placement();
  const std::size_t element = dtype_size(c.dtype);
  const BlockShares shares = block_shares(rails, c);
  const auto host = index(placement.host());
  const std::size_t carried = sum(shares.own), own_count = shares.own[host];
  std::vector<std::byte> ordered;
  const std::byte* reduced = input_in_blocks(placement, c, ordered);
  const bool alone = placement.local_size() == 1;
  auto* mine = static_cast<std::byte*>(c.out);
  if (!alone) {
    XOE_ASSIGN(std::byte* const memory, rails.scratch((carried + own_count) * element));
    const std::byte* from = reduced;
    std::byte* to = memory;
    for (std::size_t h = 0; h < shares.blocks.size(); ++h) {
      XOE_TRY(rails.on_host(op, make_reduce_scatter(ConstTensor(from, shares.blocks[h], c.dtype),
                                                    Tensor(to, shares.own[h], c.dtype), shares.by_rail[h], reduction)));
      from += shares.blocks[h] * element;
      to += shares.own[h] * element;
    }
    reduced = memory;
    mine = to;
  }
  bool in_range = true;
  if (rails.leads() || carried > 0) {
    const ConstTensor share(reduced, carried, c.dtype);
    XOE_ASSIGN(in_range, agree_on_range(rails, op, share, sums));
    if (in_range)
      XOE_TRY(rails.on_rail(op, make_reduce_scatter(share, Tensor(mine, own_count, c.dtype), shares.own, reduction)));
  }
  if (alone) return in_range;
  if (sums == Sums::kInRange) {
    XOE_ASSIGN(in_range, all_on_host(rails, op, in_range));
  }
  if (in_range) XOE_TRY(exchange_shares(rails, op, ConstTensor(mine, own_count, c.dtype), shares.by_rail[host]));
  return in_range;
}

// Reduces everything for every rank, which keeps its part.
Status allreduce_and_keep(Rails& rails, const Operation& op) {
  const Collective& c = op.collective;
  const std::size_t element = dtype_size(c.dtype);
  std::vector<std::byte> whole(c.in_count * element);
  Collective all = c;
  all.out = whole.data();
  all.out_count = c.in_count;
  XOE_TRY(allreduce(rails, op.with(all)));
  const std::size_t start = sum_before(c.send_counts, rails.placement().rank);
  if (c.out_count != 0) std::memcpy(c.out, whole.data() + start * element, c.out_count * element);
  return {};
}

// Float16 and bfloat16, rounded once.
Status reduce_scatter_widened(Rails& rails, const Operation& op) {
  const Collective& c = op.collective;
  const Widened wide(c);
  std::vector<float> own(c.out_count);
  const ReduceOp reduction = c.op == ReduceOp::kAverage ? ReduceOp::kSum : c.op;
  const Collective sums = make_reduce_scatter(wide.tensor(), Tensor(own.data(), own.size()), c.send_counts, reduction);
  XOE_ASSIGN(const bool summed, reduce_scatter_shares(rails, op.with(sums), reduction, range_of(c)));
  if (!summed) return allreduce_and_keep(rails, op);
  if (c.op == ReduceOp::kAverage) average_floats(rails, sums);
  reduce::cast(own.data(), DType::kFloat32, c.out, c.dtype, own.size());
  return {};
}

}  // namespace

Status reduce_scatter(Rails& rails, const Operation& op) {
  const Collective& c = op.collective;
  const bool average = c.op == ReduceOp::kAverage;
  if ((average && is_integer(c.dtype)) ||
      c.in_count * dtype_size(c.dtype) <= rails.placement().ranks_of.size() * kWorthRails)
    return allreduce_and_keep(rails, op);
  if (rounds(c) && !rails.one_rank_each()) return reduce_scatter_widened(rails, op);
  const bool sums_first = average && !rails.one_rank_each();
  XOE_ASSIGN(const bool reduced, reduce_scatter_shares(rails, op, sums_first ? ReduceOp::kSum : c.op,
                                                       sums_first ? Sums::kInRange : Sums::kAny));
  if (!reduced) return allreduce_and_keep(rails, op);
  if (sums_first) average_floats(rails, c);
  return {};
}

}  // namespace xoe::hierarchical

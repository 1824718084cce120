#include <algorithm>
#include <cstring>

#include "core/backend/hierarchical/algorithms.h"
#include "core/base/error.h"

namespace xoe::hierarchical {
namespace {

// Gathers the block of this host's ranks at `block`.
Status gather_block(Rails& rails, const Operation& op, std::byte* block) {
  const Collective& c = op.collective;
  std::vector<std::size_t> counts;
  for (const int rank : rails.placement().local_ranks()) counts.push_back(c.send_counts[index(rank)]);
  if (counts.size() > 1)
    return rails.on_host(
        op, make_allgather(ConstTensor(c.in, c.in_count, c.dtype), Tensor(block, sum(counts), c.dtype), counts));
  if (c.in != block && c.in_count != 0) std::memcpy(block, c.in, c.in_count * dtype_size(c.dtype));
  return {};
}

// Each host gathers its block; rail k brings its share of it to the other hosts, whose ranks allgather the shares.
// REQUIRES: the blocks of the hosts follow one another in the output.
Status allgather_shares(Rails& rails, const Operation& op) {
  const Collective& c = op.collective;
  const Placement& placement = rails.placement();
  const std::size_t element = dtype_size(c.dtype);
  const BlockShares shares = block_shares(rails, c);
  const auto host = index(placement.host());
  auto* const out = static_cast<std::byte*>(c.out);
  std::byte* const block = out + sum_before(shares.blocks, placement.host()) * element;
  XOE_TRY(gather_block(rails, op, block));
  const std::size_t carried = sum(shares.own);
  XOE_ASSIGN(std::byte* const received, rails.scratch(carried * element));
  if (rails.leads() || carried > 0) {
    XOE_TRY(rails.agree(op));
    const std::byte* const share = block + sum_before(shares.by_rail[host], placement.local_rank()) * element;
    XOE_TRY(rails.on_rail(op, make_allgather(ConstTensor(share, shares.own[host], c.dtype),
                                             Tensor(received, carried, c.dtype), shares.own)));
  }
  std::size_t from = 0, to = 0;
  for (std::size_t h = 0; h < shares.blocks.size(); ++h) {
    if (h != host)
      XOE_TRY(
          rails.on_host(op, make_allgather(ConstTensor(received + from * element, shares.own[h], c.dtype),
                                           Tensor(out + to * element, shares.blocks[h], c.dtype), shares.by_rail[h])));
    from += shares.own[h];
    to += shares.blocks[h];
  }
  return {};
}

// The hosts' leaders exchange the blocks of their hosts, in the order of the hosts, and broadcast them on their hosts.
Status allgather_by_leaders(Rails& rails, const Operation& op) {
  const Collective& c = op.collective;
  const Placement& placement = rails.placement();
  const std::size_t element = dtype_size(c.dtype);
  const std::vector<std::size_t> blocks = block_counts(placement, c);
  // In place, or in memory that the host's ranks share, so that the last step copies once.
  std::byte* all = static_cast<std::byte*>(c.out);
  if (!placement.in_blocks()) {
    XOE_ASSIGN(all, rails.scratch(c.out_count * element));
  }
  std::byte* const block = all + sum_before(blocks, placement.host()) * element;
  const Tensor whole(all, c.out_count, c.dtype);
  XOE_TRY(gather_block(rails, op, block));
  if (rails.leads()) {
    XOE_TRY(rails.agree(op));
    const ConstTensor own(block, blocks[index(placement.host())], c.dtype);
    XOE_TRY(rails.on_rail(op, make_allgather(own, whole, blocks)));
  }
  if (placement.local_size() > 1) XOE_TRY(rails.on_host(op, make_broadcast(whole, 0)));
  if (all == c.out) return {};
  for (const auto& ranks : placement.ranks_of)
    for (const int rank : ranks) {
      const std::size_t count = c.send_counts[index(rank)];
      if (count != 0)
        std::memcpy(static_cast<std::byte*>(c.out) + sum_before(c.send_counts, rank) * element, all, count * element);
      all += count * element;
    }
  return {};
}

}  // namespace

std::vector<std::size_t> block_counts(const Placement& placement, const Collective& c) {
  std::vector<std::size_t> counts(placement.ranks_of.size());
  for (std::size_t rank = 0; rank < placement.hosts.size(); ++rank)
    counts[index(placement.hosts[rank])] += c.send_counts[rank];
  return counts;
}

BlockShares block_shares(const Rails& rails, const Collective& c) {
  BlockShares shares{.blocks = block_counts(rails.placement(), c), .by_rail = {}, .own = {}};
  for (const std::size_t count : shares.blocks) {
    shares.by_rail.push_back(rails.shares(count, c.dtype));
    shares.own.push_back(shares.by_rail.back()[index(rails.placement().local_rank())]);
  }
  return shares;
}

Status allgather(Rails& rails, const Operation& op) {
  const Collective& c = op.collective;
  const Placement& placement = rails.placement();
  const bool large = c.out_count * dtype_size(c.dtype) > placement.ranks_of.size() * kWorthRails;
  return large && placement.in_blocks() && rails.count() > 1 ? allgather_shares(rails, op)
                                                             : allgather_by_leaders(rails, op);
}

}  // namespace xoe::hierarchical

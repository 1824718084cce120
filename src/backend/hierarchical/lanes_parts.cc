// Reduce-scatter and allgather over all lanes: a host's block of the array is cut into a part for each lane.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "backend/hierarchical/lanes.h"
#include "base/error.h"

namespace xoe::hierarchical {
namespace {

std::size_t sum(std::span<const std::size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

// How many elements [a, a + a_count) and [b, b + b_count) have in common.
std::size_t overlap(std::size_t a, std::size_t a_count, std::size_t b, std::size_t b_count) {
  const std::size_t from = std::max(a, b), to = std::min(a + a_count, b + b_count);
  return to > from ? to - from : 0;
}

}  // namespace

Lanes::Parts Lanes::parts_of(const Collective& c) const {
  Parts parts;
  const auto lane = static_cast<std::size_t>(placement_.local_rank());
  const auto local_size = static_cast<int>(placement_.neighbours().size());
  for (const auto& ranks : placement_.ranks_of) {
    std::size_t count = 0;
    for (const int rank : ranks) count += c.send_counts[static_cast<std::size_t>(rank)];
    parts.blocks.push_back(count);
    parts.by_lane.push_back(lane_counts(count, local_size, placement_.lanes(), kLeastLane / dtype_size(c.dtype)));
    parts.own_lane.push_back(parts.by_lane.back()[lane]);
  }
  return parts;
}

// The array with the blocks of the hosts one after the other; in memory of our own where ranks are not in that order.
const std::byte* Lanes::in_blocks(const Collective& c, std::vector<std::byte>& memory) const {
  const auto* const in = static_cast<const std::byte*>(c.in);
  if (placement_.in_blocks()) return in;
  const std::size_t element = dtype_size(c.dtype);
  std::vector<std::size_t> starts(c.send_counts.size());
  std::exclusive_scan(c.send_counts.begin(), c.send_counts.end(), starts.begin(), std::size_t{0});
  memory.resize(c.in_count * element);
  std::byte* to = memory.data();
  for (const auto& ranks : placement_.ranks_of)
    for (const int rank : ranks) {
      const std::size_t bytes = c.send_counts[static_cast<std::size_t>(rank)] * element;
      if (bytes != 0) std::memcpy(to, in + starts[static_cast<std::size_t>(rank)] * element, bytes);
      to += bytes;
    }
  return memory.data();
}

// Within each host, lane k reduces its part of every host's block; between hosts, each gets the parts of its own block;
// and within the host again, ranks exchange these for what is theirs.
Status Lanes::reduce_scatter_parts(const Call& call, ReduceOp op) {
  const Collective& c = call.collective;
  const std::size_t element = dtype_size(c.dtype);
  const Parts parts = parts_of(c);
  const auto host = static_cast<std::size_t>(placement_.host());
  const std::size_t carried = sum(parts.own_lane);
  std::vector<std::byte> ordered;
  const std::byte* const in = in_blocks(c, ordered);
  const bool alone = placement_.neighbours().size() == 1;
  const std::byte* reduced = in;
  auto* mine = static_cast<std::byte*>(c.out);
  if (!alone) {
    XOE_ASSIGN(std::byte* const own, scratch(std::max<std::size_t>((carried + parts.own_lane[host]) * element, 1)));
    std::size_t from = 0, to = 0;
    for (std::size_t h = 0; h < parts.blocks.size(); ++h) {
      XOE_TRY(local(call, {.kind = CollectiveKind::kReduceScatter,
                           .dtype = c.dtype,
                           .op = op,
                           .in = in + from * element,
                           .out = own + to * element,
                           .in_count = parts.blocks[h],
                           .out_count = parts.own_lane[h],
                           .send_counts = parts.by_lane[h]}));
      from += parts.blocks[h];
      to += parts.own_lane[h];
    }
    reduced = own;
    mine = own + carried * element;
  }
  if (leads() || carried > 0) {
    XOE_TRY(agree_in_lane(call));
    XOE_TRY(on(*lane_, call,
               {.kind = CollectiveKind::kReduceScatter,
                .dtype = c.dtype,
                .op = op,
                .in = reduced,
                .out = mine,
                .in_count = carried,
                .out_count = parts.own_lane[host],
                .send_counts = parts.own_lane}));
  }
  return alone ? Status() : exchange_parts(call, mine, parts.by_lane[host]);
}

// `part`: this lane's of the host's block. Each rank gets its own elements of it from all lanes.
Status Lanes::exchange_parts(const Call& call, const std::byte* part, const std::vector<std::size_t>& by_lane) {
  const Collective& c = call.collective;
  const auto& ranks = placement_.neighbours();
  const auto own = static_cast<std::size_t>(placement_.local_rank());
  std::vector<std::size_t> counts, starts(ranks.size()), lane_starts(ranks.size());
  for (const int rank : ranks) counts.push_back(c.send_counts[static_cast<std::size_t>(rank)]);
  std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), std::size_t{0});
  std::exclusive_scan(by_lane.begin(), by_lane.end(), lane_starts.begin(), std::size_t{0});
  std::vector<std::size_t> going, coming;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    going.push_back(overlap(lane_starts[own], by_lane[own], starts[r], counts[r]));
    coming.push_back(overlap(lane_starts[r], by_lane[r], starts[own], counts[own]));
  }
  return local(call, {.kind = CollectiveKind::kAlltoall,
                      .dtype = c.dtype,
                      .in = part,
                      .out = c.out,
                      .in_count = by_lane[own],
                      .out_count = c.out_count,
                      .send_counts = going,
                      .recv_counts = coming});
}

// Each host puts its block together; lane k brings its part of it to the other hosts, and there the parts are put
// together. REQUIRES: the blocks of the hosts follow one another in `out`.
Status Lanes::allgather_parts(const Call& call) {
  const Collective& c = call.collective;
  const std::size_t element = dtype_size(c.dtype);
  const Parts parts = parts_of(c);
  const auto host = static_cast<std::size_t>(placement_.host());
  const auto lane = static_cast<std::size_t>(placement_.local_rank());
  auto* const out = static_cast<std::byte*>(c.out);
  std::byte* const block = out + sum(std::span(parts.blocks).first(host)) * element;
  XOE_TRY(gather_block(call, block));
  const std::size_t carried = sum(parts.own_lane);
  XOE_ASSIGN(std::byte* const own, scratch(std::max<std::size_t>(carried * element, 1)));
  if (leads() || carried > 0) {
    XOE_TRY(agree_in_lane(call));
    XOE_TRY(on(*lane_, call,
               {.kind = CollectiveKind::kAllgather,
                .dtype = c.dtype,
                .in = block + sum(std::span(parts.by_lane[host]).first(lane)) * element,
                .out = own,
                .in_count = parts.own_lane[host],
                .out_count = carried,
                .send_counts = parts.own_lane}));
  }
  std::size_t from = 0, to = 0;
  for (std::size_t h = 0; h < parts.blocks.size(); ++h) {
    if (h != host)
      XOE_TRY(local(call, {.kind = CollectiveKind::kAllgather,
                           .dtype = c.dtype,
                           .in = own + from * element,
                           .out = out + to * element,
                           .in_count = parts.own_lane[h],
                           .out_count = parts.blocks[h],
                           .send_counts = parts.by_lane[h]}));
    from += parts.own_lane[h];
    to += parts.blocks[h];
  }
  return {};
}

}  // namespace xoe::hierarchical

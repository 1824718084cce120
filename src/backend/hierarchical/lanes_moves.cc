// The collectives that move data as it is, and those that ignore where ranks are.
#include <cstring>
#include <numeric>

#include "backend/hierarchical/lanes.h"
#include "base/error.h"

namespace xoe::hierarchical {
namespace {

// Arrays with more than this for each host are cut into parts for all lanes, which takes some steps more.
constexpr std::size_t kWorthLanes = std::size_t{64} << 10;

std::size_t sum_before(std::span<const std::size_t> counts, std::size_t end) {
  return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(end), std::size_t{0});
}

}  // namespace

Result<std::vector<Greeting>> Lanes::agree_with_all(net::Net& net, const Call& call) {
  return agree(net, placement_.hosts.size(), call);
}

// On the root's host all get it first; then each lane brings its part to the other hosts, whose ranks put the parts
// together.
Status Lanes::broadcast(const Call& call) {
  const Collective& c = call.collective;
  const int root_host = placement_.hosts[static_cast<std::size_t>(c.root)];
  const auto& ranks = placement_.neighbours();
  const std::size_t element = dtype_size(c.dtype);
  const auto lane = static_cast<std::size_t>(placement_.local_rank());
  const auto counts = lane_counts(c.in_count, static_cast<int>(ranks.size()), placement_.lanes(), kLeastLane / element);
  auto* const data = static_cast<std::byte*>(c.out);
  auto* const part = data + sum_before(counts, lane) * element;
  const bool here = root_host == placement_.host();
  if (here && ranks.size() > 1) {
    Collective first = c;
    first.root = static_cast<int>(std::find(ranks.begin(), ranks.end(), c.root) - ranks.begin());
    XOE_TRY(local(call, first));
  }
  if (lane == 0 || counts[lane] > 0) {
    XOE_TRY(agree_in_lane(call));
    if (counts[lane] > 0)
      XOE_TRY(on(*lane_, call,
                 {.kind = CollectiveKind::kBroadcast,
                  .dtype = c.dtype,
                  .root = root_host,
                  .in = part,
                  .out = part,
                  .in_count = counts[lane],
                  .out_count = counts[lane]}));
  }
  // Also at the root's host, where it moves nothing that is new: nobody returns before all of his host have it.
  if (ranks.size() == 1) return {};
  if (here) return local(call, {.kind = CollectiveKind::kBarrier});
  return local(call, {.kind = CollectiveKind::kAllgather,
                      .dtype = c.dtype,
                      .in = part,
                      .out = data,
                      .in_count = counts[lane],
                      .out_count = c.out_count,
                      .send_counts = counts});
}

// The block of this host's ranks, put together at `block`.
Status Lanes::gather_block(const Call& call, std::byte* block) {
  const Collective& c = call.collective;
  const std::size_t element = dtype_size(c.dtype);
  const auto& ranks = placement_.neighbours();
  std::vector<std::size_t> counts;
  for (const int rank : ranks) counts.push_back(c.send_counts[static_cast<std::size_t>(rank)]);
  if (ranks.size() > 1)
    return local(call, {.kind = CollectiveKind::kAllgather,
                        .dtype = c.dtype,
                        .in = c.in,
                        .out = block,
                        .in_count = c.in_count,
                        .out_count = sum_before(counts, counts.size()),
                        .send_counts = counts});
  if (c.in != block && c.in_count != 0) std::memcpy(block, c.in, c.in_count * element);
  return {};
}

// Small arrays, and those of ranks that are not in the order of their hosts: the hosts' leaders exchange what their
// hosts have, in the order of the hosts; from there each rank takes it.
Status Lanes::allgather(const Call& call) {
  const Collective& c = call.collective;
  const std::size_t element = dtype_size(c.dtype);
  const auto hosts = placement_.ranks_of.size();
  if (placement_.in_blocks() && placement_.lanes() > 1 && c.out_count * element > hosts * kWorthLanes)
    return allgather_parts(call);
  const auto& ranks = placement_.neighbours();
  std::vector<std::size_t> host_counts(hosts);
  for (std::size_t rank = 0; rank < placement_.hosts.size(); ++rank)
    host_counts[static_cast<std::size_t>(placement_.hosts[rank])] += c.send_counts[rank];
  // In memory that the host's ranks share, so that the last step copies once; or in place.
  std::byte* all = static_cast<std::byte*>(c.out);
  if (!placement_.in_blocks()) {
    XOE_ASSIGN(all, scratch(std::max<std::size_t>(c.out_count * element, 1)));
  }
  const auto host = static_cast<std::size_t>(placement_.host());
  std::byte* const own = all + sum_before(host_counts, host) * element;
  XOE_TRY(gather_block(call, own));
  if (leads()) {
    XOE_TRY(agree_in_lane(call));
    XOE_TRY(on(*lane_, call,
               {.kind = CollectiveKind::kAllgather,
                .dtype = c.dtype,
                .in = own,
                .out = all,
                .in_count = host_counts[host],
                .out_count = c.out_count,
                .send_counts = host_counts}));
  }
  if (ranks.size() > 1)
    XOE_TRY(local(call, {.kind = CollectiveKind::kBroadcast,
                         .dtype = c.dtype,
                         .root = 0,
                         .in = all,
                         .out = all,
                         .in_count = c.out_count,
                         .out_count = c.out_count}));
  if (all == c.out) return {};
  for (const auto& from : placement_.ranks_of)
    for (const int rank : from) {
      const std::size_t count = c.send_counts[static_cast<std::size_t>(rank)];
      const std::size_t to = sum_before(c.send_counts, static_cast<std::size_t>(rank));
      if (count != 0) std::memcpy(static_cast<std::byte*>(c.out) + to * element, all, count * element);
      all += count * element;
    }
  return {};
}

Status Lanes::reduce_scatter(const Call& call) {
  const Collective& c = call.collective;
  const bool average = c.op == ReduceOp::kAverage;
  const bool wide = average && (is_integer(c.dtype) || (is_short_float(c.dtype) && !even()));
  if (wide || c.in_count * dtype_size(c.dtype) <= placement_.ranks_of.size() * kWorthLanes)
    return reduce_and_keep(call);
  if (!average || is_short_float(c.dtype)) return reduce_scatter_parts(call, c.op);
  XOE_TRY(reduce_scatter_parts(call, ReduceOp::kSum));
  average_floats(c);
  return {};
}

// Small arrays, and averages that are made in a wider type: everything is reduced for everybody, who keep their parts.
Status Lanes::reduce_and_keep(const Call& call) {
  const Collective& c = call.collective;
  const std::size_t element = dtype_size(c.dtype);
  std::vector<std::byte> whole(c.in_count * element);
  Collective all = c;
  all.out = whole.data();
  all.out_count = c.in_count;
  XOE_TRY(allreduce({.collective = all, .number = call.number, .deadline = call.deadline}));
  const std::size_t mine = sum_before(c.send_counts, static_cast<std::size_t>(placement_.rank));
  if (c.out_count != 0) std::memcpy(c.out, whole.data() + mine * element, c.out_count * element);
  return {};
}

Status Lanes::alltoall(const Call& call) {
  const Collective& c = call.collective;
  XOE_ASSIGN(net::Net* const net, everybody());
  XOE_TRY(agree_with_all(*net, call));
  const std::size_t size = placement_.hosts.size();
  const std::vector<std::size_t> ones(size, 1);
  std::vector<std::size_t> coming(size);
  XOE_TRY(on(*net, call,
             {.kind = CollectiveKind::kAlltoall,
              .dtype = DType::kInt64,
              .in = c.send_counts.data(),
              .out = coming.data(),
              .in_count = size,
              .out_count = size,
              .send_counts = ones,
              .recv_counts = ones}));
  for (std::size_t r = 0; r < size; ++r)
    if (coming[r] != c.recv_counts[r])
      return failure(Code::kInvalidArgument, "{}: rank {} sends {} elements to rank {}, which expects {}", call.title(),
                     r, coming[r], placement_.rank, c.recv_counts[r]);
  return on(*net, call, c);
}

Status Lanes::barrier(const Call& call) {
  const Collective meet{.kind = CollectiveKind::kBarrier};
  if (placement_.neighbours().size() > 1) XOE_TRY(local(call, meet));
  if (leads()) XOE_TRY(agree_in_lane(call));
  return placement_.neighbours().size() > 1 ? local(call, meet) : Status();
}

Status Lanes::run_flat(const Call& call) {
  if (!call.collective.segments.empty()) return packed(call, &Lanes::run_flat);
  XOE_ASSIGN(net::Net* const net, everybody());
  XOE_TRY(agree_with_all(*net, call));
  const Collective& c = call.collective;
  if (c.kind == CollectiveKind::kBarrier) return {};  // all have come
  return on(*net, call, c);
}

}  // namespace xoe::hierarchical

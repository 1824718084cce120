#include "core/backend/hierarchical/algorithms.h"
#include "core/base/error.h"

namespace xoe::hierarchical {

// Every rank receives the contributions of all ranks to its part of the array, and combines them in rank order, as the
// ranks of one host do. An allreduce then brings the parts to all ranks as an allgather does, each once to a host. Of
// the contributions a host sends those of all its ranks, where the other algorithms send their sum.
Status reduce_in_rank_order(Rails& rails, const Operation& op) {
  const Collective& c = op.collective;
  XOE_ASSIGN(net::Net* const net, rails.all_ranks());
  XOE_TRY(rails.agree_all(*net, op));
  const std::size_t element = dtype_size(c.dtype);
  if (c.kind == CollectiveKind::kReduceScatter || c.in_count * element <= kWorthRails) return rails.on(*net, op, c);
  const auto parts = equal_parts(c.in_count, index(rails.size()));
  const int rank = rails.placement().rank;
  const Tensor own(net::at(c.out, sum_before(parts, rank) * element), parts[index(rank)], c.dtype);
  const ConstTensor in(c.in, c.in_count, c.dtype);
  XOE_TRY(rails.on(*net, op, make_reduce_scatter(in, own, parts, c.op)));
  return allgather(rails, op.with(make_allgather(own, Tensor(c.out, c.out_count, c.dtype), parts)));
}

}  // namespace xoe::hierarchical

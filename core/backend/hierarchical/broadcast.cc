#include <algorithm>

#include "core/backend/hierarchical/algorithms.h"
#include "core/base/error.h"

namespace xoe::hierarchical {

// Within the root's host first; then each rail brings its share to the other hosts, whose ranks allgather the shares.
Status broadcast(Rails& rails, const Operation& op) {
  const Collective& c = op.collective;
  const Placement& placement = rails.placement();
  const auto& ranks = placement.local_ranks();
  const int root_host = placement.hosts[index(c.root)];
  const bool here = root_host == placement.host();
  const Tensor data(c.out, c.out_count, c.dtype);
  const auto shares = rails.shares(c.in_count, c.dtype);
  const int rail = placement.local_rank();
  const Tensor share(static_cast<std::byte*>(c.out) + sum_before(shares, rail) * dtype_size(c.dtype),
                     shares[index(rail)], c.dtype);
  if (here && ranks.size() > 1) {
    Collective first = c;
    first.root = static_cast<int>(std::ranges::find(ranks, c.root) - ranks.begin());
    XOE_TRY(rails.on_host(op, first));
  }
  if (rails.leads() || share.count > 0) {
    XOE_TRY(rails.agree(op));
    if (share.count > 0) XOE_TRY(rails.on_rail(op, make_broadcast(share, root_host)));
  }
  // No rank returns before all ranks of its host have the data, also on the root's host, where nothing is left to move.
  if (ranks.size() == 1) return {};
  return rails.on_host(op, here ? Collective() : make_allgather(share, data, shares));
}

}  // namespace xoe::hierarchical

// The paths that a group over several hosts has: shared memory within each host, and rails between the hosts.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/backend/backend.h"
#include "core/backend/hierarchical/operation.h"
#include "core/backend/net/net.h"
#include "core/backend/placement.h"

namespace xoe::hierarchical {

// What the user has chosen to go another way.
struct Routing {
  bool flat = false;           // everything over one net of all ranks, and no shared memory within hosts
  bool in_rank_order = false;  // reductions combine the ranks in their order, whatever the placement
};

// Rail k is a net of the k-th ranks of all hosts. There are as many rails as the smallest host has ranks, and each
// carries an equal share of the data, so that a byte crosses the network once for each host and all of a host's network
// queues are used. Ranks without a rail take part on their host only.
class Rails {
 public:
  // Makes a net of some ranks of the group.
  using Connect =
      std::function<Result<std::unique_ptr<net::Net>>(const std::vector<int>& ranks, std::string_view what)>;

  // local: the backend of this host's ranks, in the order of their ranks.
  Rails(const Placement& placement, Backend& local, Routing routing, Connect connect);

  // Collective: connects the nets that every group needs.
  Status connect();
  const Routing& routing() const noexcept { return routing_; }
  // REQUIRES: routing().flat.
  Status supports(const Collective& collective) const { return all_ranks_->supports(collective); }
  std::string_view net_name() const noexcept { return net_name_; }
  // Any thread.
  void abort() noexcept;

  const Placement& placement() const noexcept { return placement_; }
  int size() const noexcept { return static_cast<int>(placement_.hosts.size()); }
  bool leads() const { return placement_.local_rank() == 0; }
  int count() const;           // rails
  bool one_rank_each() const;  // on every host
  // The share of `count` elements that the rail of each local rank carries; small arrays use fewer rails. Sums to
  // count.
  std::vector<std::size_t> shares(std::size_t count, DType dtype) const;

  // Runs a collective as a part of `op`: among this host's ranks, on this rank's rail, or on another net. Counts and
  // roots refer to the members of each.
  Status on_host(const Operation& op, Collective collective);
  Status on_rail(const Operation& op, const Collective& collective) { return on(*rail_, op, collective); }
  Status on(net::Net& net, const Operation& op, const Collective& collective);
  // The net of all ranks. Connects it on the first call, which happens at the same collective on all ranks.
  Result<net::Net*> all_ranks();

  // Checks that all members of the rail, or of the net of all ranks, run the same operation. Each receives the `data`
  // of all, at most OperationHeader::kInline bytes.
  Result<std::vector<OperationHeader>> agree(const Operation& op, std::span<const std::byte> data = {}) {
    return agree(*rail_, placement_.ranks_of.size(), op, data);
  }
  Status agree_all(net::Net& net, const Operation& op);

  // Memory that the peers on this host can map, for one operation.
  Result<std::byte*> scratch(std::size_t bytes);

 private:
  Result<std::vector<OperationHeader>> agree(net::Net& net, std::size_t members, const Operation& op,
                                             std::span<const std::byte> data);
  void keep(std::unique_ptr<net::Net>& member, std::unique_ptr<net::Net> net);

  Placement placement_;
  Backend& local_;
  Routing routing_;
  Connect connect_;
  std::string net_name_;
  SharedBuffer scratch_;
  std::mutex nets_mutex_;  // of the pointers; abort() comes from another thread
  bool aborted_ = false;
  std::unique_ptr<net::Net> rail_;
  std::unique_ptr<net::Net> all_ranks_;
};

}  // namespace xoe::hierarchical

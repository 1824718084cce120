// Which ranks of a group are on which host.
#pragma once

#include <vector>

#include "core/backend/collective.h"

namespace xoe {

// Hosts are numbered by the first rank on each.
struct Placement {
  std::vector<int> hosts;                  // the host of each rank
  std::vector<std::vector<int>> ranks_of;  // by host, ascending
  int rank = 0;                            // this process

  int host() const { return hosts[index(rank)]; }
  int host_count() const { return static_cast<int>(ranks_of.size()); }
  const std::vector<int>& local_ranks() const { return ranks_of[index(host())]; }
  int local_size() const { return static_cast<int>(local_ranks().size()); }
  int local_rank() const;
  // The first rank of each host.
  std::vector<int> leaders() const;
  // cross_rank and cross_size count the hosts that have a rank with this local rank.
  Topology topology() const;
  // The ranks of each host follow one another, and so do the hosts.
  bool in_blocks() const;
};

// The numbers in `hosts` only tell hosts apart. REQUIRES: 0 <= rank < hosts.size().
Placement make_placement(const std::vector<int>& hosts, int rank);

}  // namespace xoe

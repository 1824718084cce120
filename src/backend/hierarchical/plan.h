// Who moves what between hosts: pure functions of the ranks' places.
#pragma once

#include <cstddef>
#include <vector>

#include "xoe/communicator.h"

namespace xoe::hierarchical {

// The ranks of a group by host. Hosts are numbered by the first rank on each.
struct Placement {
  std::vector<int> hosts;                  // the host of each rank
  std::vector<std::vector<int>> ranks_of;  // by host, ascending
  int rank = 0;                            // this one

  int host() const { return hosts[static_cast<std::size_t>(rank)]; }
  int host_count() const { return static_cast<int>(ranks_of.size()); }
  const std::vector<int>& neighbours() const { return ranks_of[static_cast<std::size_t>(host())]; }
  int local_rank() const;
  // How many ranks of each host take part between hosts: as many as the host with the fewest has.
  int lanes() const;
  Topology topology() const;
  // Each host's ranks follow one another, and the hosts too.
  bool in_blocks() const;
};

// Numbers `hosts` anew in the order of the ranks. REQUIRES: 0 <= rank < hosts.size().
Placement place(const std::vector<int>& hosts, int rank);

// Bytes: one lane carries less than this alone, since a message costs more than its bytes.
inline constexpr std::size_t kLeastLane = std::size_t{32} << 10;

// The part of `count` elements that each local rank carries between hosts, with at least `least` in all but the last:
// small arrays use fewer lanes. Sums to count.
std::vector<std::size_t> lane_counts(std::size_t count, int local_size, int lanes, std::size_t least);

}  // namespace xoe::hierarchical

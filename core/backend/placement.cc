#include "core/backend/placement.h"

#include <algorithm>

namespace xoe {

int Placement::local_rank() const {
  const auto& ranks = local_ranks();
  return static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
}

std::vector<int> Placement::leaders() const {
  std::vector<int> leaders;
  for (const auto& ranks : ranks_of) leaders.push_back(ranks.front());
  return leaders;
}

Topology Placement::topology() const {
  Topology t{.rank = rank,
             .size = static_cast<int>(hosts.size()),
             .local_rank = local_rank(),
             .local_size = local_size(),
             .cross_size = 0};
  for (int h = 0; h < host_count(); ++h) {
    if (static_cast<int>(ranks_of[index(h)].size()) <= t.local_rank) continue;
    if (h == host()) t.cross_rank = t.cross_size;
    ++t.cross_size;
  }
  return t;
}

bool Placement::in_blocks() const { return std::ranges::is_sorted(hosts); }

Placement make_placement(const std::vector<int>& hosts, int rank) {
  Placement placement;
  placement.rank = rank;
  std::vector<int> known;
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    const auto at = std::ranges::find(known, hosts[r]);
    const auto number = static_cast<std::size_t>(at - known.begin());
    if (at == known.end()) {
      known.push_back(hosts[r]);
      placement.ranks_of.emplace_back();
    }
    placement.hosts.push_back(static_cast<int>(number));
    placement.ranks_of[number].push_back(static_cast<int>(r));
  }
  return placement;
}

}  // namespace xoe

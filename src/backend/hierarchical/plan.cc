#include "backend/hierarchical/plan.h"

#include <algorithm>
#include <numeric>

namespace xoe::hierarchical {

int Placement::local_rank() const {
  const auto& ranks = neighbours();
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

int Placement::lanes() const {
  std::size_t fewest = ranks_of.front().size();
  for (const auto& ranks : ranks_of) fewest = std::min(fewest, ranks.size());
  return static_cast<int>(fewest);
}

Topology Placement::topology() const {
  Topology t{.rank = rank, .size = static_cast<int>(hosts.size()), .cross_size = 0};
  t.local_rank = local_rank();
  t.local_size = static_cast<int>(neighbours().size());
  for (int h = 0; h < host_count(); ++h) {
    if (static_cast<int>(ranks_of[static_cast<std::size_t>(h)].size()) <= t.local_rank) continue;
    if (h == host()) t.cross_rank = t.cross_size;
    ++t.cross_size;
  }
  return t;
}

bool Placement::in_blocks() const { return std::is_sorted(hosts.begin(), hosts.end()); }

Placement place(const std::vector<int>& hosts, int rank) {
  Placement placement;
  placement.rank = rank;
  std::vector<int> known;
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    const auto at = std::find(known.begin(), known.end(), hosts[r]);
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

std::vector<std::size_t> lane_counts(std::size_t count, int local_size, int lanes, std::size_t least) {
  const std::size_t worth = least == 0 ? count : count / least;
  const std::size_t used = std::clamp<std::size_t>(worth, 1, static_cast<std::size_t>(lanes));
  std::vector<std::size_t> counts(static_cast<std::size_t>(local_size));
  for (std::size_t lane = 0; lane < used; ++lane) counts[lane] = count / used + (lane < count % used ? 1 : 0);
  return counts;
}

}  // namespace xoe::hierarchical

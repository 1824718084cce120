#include "launch/plan/placement.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"
#include "launch/plan/job_plan.h"

namespace xoe::launch {
namespace {

// How many ranks a host takes at most.
int room_of(const remote::Host& host, bool oversubscribe) {
  const int limit = host.max_slots != 0 ? std::min(host.max_slots, kMaxRanksPerHost) : kMaxRanksPerHost;
  return oversubscribe ? limit : std::min(host.slots, limit);
}

Status check_room(const std::vector<remote::Host>& hosts, int size, bool oversubscribe) {
  std::int64_t slots = 0;
  std::int64_t room = 0;
  for (const remote::Host& host : hosts) {
    if (!oversubscribe && host.slots > kMaxRanksPerHost)
      return failure(Code::kInvalidArgument, "host {} has {}; at most {} ranks run on one host", host.name,
                     counted(host.slots, "slot"), kMaxRanksPerHost);
    slots += host.slots;
    room += room_of(host, oversubscribe);
  }
  if (size <= room) return {};
  if (oversubscribe)
    return failure(Code::kInvalidArgument, "-np {}: the hosts take at most {} (max-slots, and {} on each)", size,
                   counted(room, "rank"), kMaxRanksPerHost);
  return failure(Code::kInvalidArgument,
                 "-np {}: the hosts have {}; give more (-H {}:N), or let ranks share with --oversubscribe", size,
                 counted(slots, "slot"), hosts.front().name);
}

}  // namespace

Result<std::vector<std::vector<AgentRank>>> place_ranks(const std::vector<remote::Host>& hosts, int size, MapBy map_by,
                                                        bool oversubscribe) {
  XOE_TRY(check_room(hosts, size, oversubscribe));
  std::vector<std::vector<AgentRank>> placed(hosts.size());
  int next = 0;
  // The slots first; then the remaining ranks, again in portions of the slots.
  for (int round = 1; next < size; ++round)
    for (int before = -1; next < size && before != next;) {
      before = next;
      for (std::size_t i = 0; i < hosts.size(); ++i) {
        const int most = std::min(room_of(hosts[i], oversubscribe), hosts[i].slots * round);
        const int portion = map_by == MapBy::kNode ? 1 : most;
        for (int k = 0; k < portion && next < size && std::cmp_less(placed[i].size(), most); ++k)
          placed[i].push_back({.rank = next++});
      }
    }
  // Among the hosts that have a rank with this local rank.
  std::size_t deepest = 0;
  for (const auto& ranks : placed) deepest = std::max(deepest, ranks.size());
  for (std::size_t local = 0; local < deepest; ++local) {
    const auto has = [local](const auto& ranks) { return ranks.size() > local; };
    const int across = static_cast<int>(std::ranges::count_if(placed, has));
    for (int cross = 0; auto& ranks : placed)
      if (has(ranks)) {
        ranks[local].cross_rank = cross++;
        ranks[local].cross_size = across;
      }
  }
  return placed;
}

std::vector<std::optional<std::size_t>> plan_fan_out(std::size_t hosts, std::size_t fan_out) {
  std::vector<std::optional<std::size_t>> relays(hosts);
  if (fan_out == 0) return relays;
  std::size_t before = 0;                        // the first host of the level before
  std::size_t level = std::min(hosts, fan_out);  // and of this one
  while (level < hosts) {
    const std::size_t above = level - before;
    const std::size_t here = std::min(hosts - level, above * fan_out);
    for (std::size_t i = 0; i < here; ++i) relays[level + i] = before + i * above / here;
    before = level;
    level += here;
  }
  return relays;
}

}  // namespace xoe::launch

// Which rank runs on which host, and the tree in which hosts are reached when they are many.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "launch/options/options.h"
#include "launch/plan/agent_job.h"
#include "xoe/status.h"

namespace xoe::launch {

// The ranks of each host, by local rank. slot, socket: a host's slots are filled before the next host's; node: one rank
// for each host in turn. With `oversubscribe` the ranks beyond the slots fill whole rounds of slots, up to each host's
// limit. `invalid_argument` when there are too few slots.
Result<std::vector<std::vector<AgentRank>>> place_ranks(const std::vector<remote::Host>& hosts, int size, MapBy map_by,
                                                        bool oversubscribe);

// For each host its relay, always an earlier one; none: the launcher reaches it. Launcher and relays reach at most
// `fan_out` hosts each (0: no limit), levels are as few as that allows, and a level's hosts are spread evenly, in their
// order, over the level before.
std::vector<std::optional<std::size_t>> plan_fan_out(std::size_t hosts, std::size_t fan_out);

}  // namespace xoe::launch

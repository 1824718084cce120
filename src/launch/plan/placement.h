// Which rank runs on which host.
#pragma once

#include <vector>

#include "launch/agents/agent_job.h"
#include "launch/options/options.h"
#include "xoe/status.h"

namespace xoe::launch {

// The ranks of each host, by local rank. slot, socket: a host's slots are filled before the next host's; node: one rank
// for each host in turn. With `oversubscribe` the ranks beyond the slots fill whole rounds of slots, up to each host's
// limit. `invalid_argument` when there are too few slots.
Result<std::vector<std::vector<AgentRank>>> place_ranks(const std::vector<remote::Host>& hosts, int size, MapBy map_by,
                                                        bool oversubscribe);

}  // namespace xoe::launch

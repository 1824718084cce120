// Which rank runs on which host.
#pragma once

#include <vector>

#include "launch/agent_frames.h"
#include "launch/options.h"
#include "xoe/status.h"

namespace xoe::launch {

// The ranks of each host, by local rank. slot, socket: a host's slots are filled before the next one's; node: one rank
// for each host by turns. With `oversubscribe` ranks beyond the slots go on by turns of whole slots, up to each host's
// limit. `invalid_argument` when there are not enough slots.
Result<std::vector<std::vector<AgentRank>>> place_ranks(const std::vector<Host>& hosts, int size, MapBy map_by,
                                                        bool oversubscribe);

}  // namespace xoe::launch

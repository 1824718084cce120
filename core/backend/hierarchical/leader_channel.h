// The channel between leaders of real hosts: a mesh of TCP connections.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/backend/hierarchical/context.h"
#include "core/backend/leader_channel.h"

namespace xoe::hierarchical {

// Collective over the leaders, ranks of the job by host, under a key that no other channel has.
Result<std::unique_ptr<LeaderChannel>> make_leader_channel(std::shared_ptr<Context> context,
                                                           const std::vector<int>& leaders, int host,
                                                           const std::string& key);

}  // namespace xoe::hierarchical

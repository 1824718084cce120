// The link of real hosts: a mesh of their leaders.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "backend/hierarchical/host_world.h"
#include "backend/host_link.h"

namespace xoe::hierarchical {

// Collective over the leaders, ranks of the job by host, under a key that nothing else has.
Result<std::unique_ptr<HostLink>> make_mesh_link(std::shared_ptr<HostWorld> world, const std::vector<int>& leaders,
                                                 int host, const std::string& key);

}  // namespace xoe::hierarchical

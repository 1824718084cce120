// The tree in which hosts are reached when they are many.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace xoe::launch {

// For each host its relay, always an earlier one; none: the launcher reaches it. Launcher and relays reach at most
// `fan_out` hosts each (0: no limit), levels are as few as that allows, and a level's hosts are spread evenly, in their
// order, over the level before.
std::vector<std::optional<std::size_t>> plan_fan_out(std::size_t hosts, std::size_t fan_out);

}  // namespace xoe::launch

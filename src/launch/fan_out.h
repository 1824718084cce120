// The tree in which hosts are reached when they are many.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace xoe::launch {

// For each of `hosts` the one that reaches it, always an earlier one; none: the launcher does. Nobody reaches more than
// `fan_out` of them (0: no limit), levels are as few as that allows, and a level's hosts are spread evenly, in their
// order, over the level before.
std::vector<std::optional<std::size_t>> plan_fan_out(std::size_t hosts, std::size_t fan_out);

}  // namespace xoe::launch

// Renders images that resemble chest radiographs, with findings that a network can learn.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace xoe::data::synth {

// Findings by number, in the order of kChestFindings; each has a faint pattern of its own: a larger heart, haze at the
// bottom of a lung, a dark rim, spots, rings, streaks, meshes. Returns size x size levels, row by row, which depend
// only on the arguments.
std::vector<std::uint8_t> render_radiograph(std::span<const int> findings, int size, std::uint64_t key);

}  // namespace xoe::data::synth

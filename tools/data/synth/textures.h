// Two-coloured patterns.
#pragma once

#include <string_view>

#include "tools/data/synth/canvas.h"
#include "tools/data/synth/noise.h"

namespace xoe::data::synth {

inline constexpr int kTextures = 10;
std::string_view texture_name(int texture) noexcept;  // "bricks"

// The share of the second colour, 0 to 1, at a point; patterns repeat about every unit.
// REQUIRES: 0 <= texture < kTextures.
float texture_value(int texture, Point p, const Noise& noise) noexcept;

}  // namespace xoe::data::synth

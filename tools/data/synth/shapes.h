// Outlines of objects.
#pragma once

#include <string_view>

#include "tools/data/synth/canvas.h"

namespace xoe::data::synth {

inline constexpr int kShapes = 10;
std::string_view shape_name(int shape) noexcept;  // "star"

// The distance of a point outside (above 0) or inside (below 0) of a shape that fills the unit circle; about exact near
// the outline. REQUIRES: 0 <= shape < kShapes.
float shape_distance(int shape, Point p) noexcept;

}  // namespace xoe::data::synth

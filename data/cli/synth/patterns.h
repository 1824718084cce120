// What rendered images show: digits as pen strokes, outlines of objects, and two-coloured textures.
#pragma once

#include <string_view>

#include "data/cli/synth/canvas.h"
#include "data/cli/synth/noise.h"

namespace xoe::data::synth {

// Distance from a point to the strokes of a digit in the box from (-0.5, -0.9) to (0.5, 0.9), y downwards.
// REQUIRES: 0 <= digit <= 9.
float digit_distance(int digit, Point p) noexcept;

inline constexpr int kShapes = 10;
std::string_view shape_name(int shape) noexcept;  // "star"

// The distance of a point outside (above 0) or inside (below 0) of a shape that fills the unit circle; about exact near
// the outline. REQUIRES: 0 <= shape < kShapes.
float shape_distance(int shape, Point p) noexcept;

inline constexpr int kTextures = 10;
std::string_view texture_name(int texture) noexcept;  // "bricks"

// The share of the second colour, 0 to 1, at a point; patterns repeat about every unit.
// REQUIRES: 0 <= texture < kTextures.
float texture_value(int texture, Point p, const Noise& noise) noexcept;

}  // namespace xoe::data::synth

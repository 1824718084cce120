// Digits as pen strokes.
#pragma once

#include "tools/data/synth/canvas.h"

namespace xoe::data::synth {

// Distance from a point to the strokes of a digit in the box from (-0.5, -0.9) to (0.5, 0.9), y downwards.
// REQUIRES: 0 <= digit <= 9.
float digit_distance(int digit, Point p) noexcept;

}  // namespace xoe::data::synth

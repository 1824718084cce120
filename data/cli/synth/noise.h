// Random numbers and smooth random fields.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "data/stages/random.h"

namespace xoe::data::synth {

inline float uniform(Random& random, double low, double high) { return static_cast<float>(random.uniform(low, high)); }

// Value noise: random numbers on a grid, interpolated smoothly; repeats every 64 cells.
class Noise {
 public:
  explicit Noise(Random& random) {
    for (std::size_t i = 0; i < values_.size(); i += 4) {
      const std::uint64_t bits = random.bits();
      for (std::size_t k = 0; k < 4; ++k)
        values_[i + k] = static_cast<float>((bits >> (16 * k)) & 0xffff) * (2.0F / 65535) - 1;
    }
  }

  // Within [-1, 1]; features are about one unit wide.
  float at(float x, float y) const {
    const float fx = std::floor(x);
    const float fy = std::floor(y);
    const float u = ease(x - fx);
    const float v = ease(y - fy);
    const auto column = static_cast<int>(fx);
    const auto row = static_cast<int>(fy);
    const float top = value(column, row) * (1 - u) + value(column + 1, row) * u;
    const float bottom = value(column, row + 1) * (1 - u) + value(column + 1, row + 1) * u;
    return top * (1 - v) + bottom * v;
  }

  // A sum of octaves whose power falls with about 1/f^2, as in photographs.
  float cloud(float x, float y, int octaves) const {
    float sum = 0;
    float strength = 0.5F;
    for (int i = 0; i < octaves; ++i, strength /= 2) {
      sum += strength * at(x, y);
      x = 2 * x + 17.3F;
      y = 2 * y + 5.7F;
    }
    return sum;
  }

 private:
  static constexpr unsigned kSide = 64;

  static float ease(float t) { return t * t * (3 - 2 * t); }
  float value(int column, int row) const {
    return values_[(static_cast<unsigned>(row) % kSide) * kSide + static_cast<unsigned>(column) % kSide];
  }

  std::array<float, kSide * kSide> values_;
};

}  // namespace xoe::data::synth

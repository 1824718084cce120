#include "data/cli/synth/patterns.h"

#include <array>

namespace xoe::data::synth {
namespace {

float fraction(float x) { return x - std::floor(x); }
// Distance to the nearest whole number, 0 to 0.5.
float to_whole(float x) { return std::abs(x - std::round(x)); }
// A line of this half width around `distance` 0, with soft sides.
float line(float distance, float half_width) {
  return 1 - smooth_step(half_width - 0.05F, half_width + 0.05F, distance);
}
float band(float x) { return smooth_step(-0.35F, 0.35F, std::sin(static_cast<float>(kFullTurn) * x)); }

float bricks(Point p) {
  const float row = std::floor(p.y * 1.6F);
  const float shift = fraction(row / 2) > 0.25F ? 0.5F : 0.0F;
  return std::max(line(to_whole(p.y * 1.6F), 0.11F), line(to_whole(p.x * 0.8F + shift), 0.06F));
}

float dots(Point p) {
  const float shift = fraction(std::floor(p.y + 0.5F) / 2) > 0.25F ? 0.5F : 0.0F;
  return line(length({to_whole(p.x + shift), to_whole(p.y)}), 0.27F);
}

// The nearest of jittered grid points decides; their borders are dark.
float cells(Point p, const Noise& noise) {
  float nearest = 9;
  float second = 9;
  for (int dy = -1; dy <= 1; ++dy)
    for (int dx = -1; dx <= 1; ++dx) {
      const float cx = std::floor(p.x) + static_cast<float>(dx);
      const float cy = std::floor(p.y) + static_cast<float>(dy);
      const Point centre{cx + 0.5F + 0.35F * noise.at(cx, cy), cy + 0.5F + 0.35F * noise.at(cy + 31, cx + 7)};
      const float d = length(p - centre);
      second = std::min(second, std::max(d, nearest));
      nearest = std::min(nearest, d);
    }
  return line(second - nearest, 0.12F);
}

constexpr std::array<std::string_view, kTextures> kTextureNames = {"plain", "stripes", "checks", "dots",    "waves",
                                                                   "rings", "bricks",  "marble", "lattice", "cells"};

}  // namespace

std::string_view texture_name(int texture) noexcept { return kTextureNames[static_cast<std::size_t>(texture)]; }

float texture_value(int texture, Point p, const Noise& noise) noexcept {
  switch (texture) {
    case 0: return 0.15F + 0.2F * noise.at(p.x, p.y);
    case 1: return band(p.x);
    case 2: return fraction((std::floor(p.x * 1.3F) + std::floor(p.y * 1.3F)) / 2) > 0.25F ? 1.0F : 0.0F;
    case 3: return dots(p);
    case 4: return band(p.y + 0.3F * std::sin(static_cast<float>(kFullTurn) * p.x * 0.6F));
    case 5: return band(length(p));
    case 6: return bricks(p);
    case 7: return smooth_step(-0.12F, 0.12F, noise.cloud(p.x * 0.7F, p.y * 0.7F, 3));
    case 8: return std::max(line(to_whole(p.x), 0.13F), line(to_whole(p.y), 0.13F));
    default: return cells(p, noise);
  }
}

}  // namespace xoe::data::synth

#include "data/cli/synth/patterns.h"

#include <array>
#include <numbers>

namespace xoe::data::synth {
namespace {

constexpr float kPi = std::numbers::pi_v<float>;

float disc(Point p, float radius) { return length(p) - radius; }

float box(Point p, float half_width, float half_height) {
  const Point d{std::abs(p.x) - half_width, std::abs(p.y) - half_height};
  return length({std::max(d.x, 0.0F), std::max(d.y, 0.0F)}) + std::min(std::max(d.x, d.y), 0.0F);
}

// A regular polygon whose corners lie on the circle of that radius.
float polygon(Point p, int corners, float radius) {
  const float sector = 2 * kPi / static_cast<float>(corners);
  const float angle = std::atan2(p.x, -p.y);
  const float from_middle = angle - sector * (std::floor(angle / sector) + 0.5F);
  return length(p) * std::cos(from_middle) - radius * std::cos(sector / 2);
}

// The outline swings between two radii `points` times around.
float star(Point p, float points, float inner, float outer) {
  const float swing = 2 * std::abs(std::fmod(std::atan2(p.x, -p.y) / (2 * kPi) * points + 2 * points, 1.0F) - 0.5F);
  return (length(p) - (inner + (outer - inner) * swing)) * 0.7F;
}

float flower(Point p) { return (length(p) - 0.72F - 0.26F * std::cos(5 * std::atan2(p.y, p.x))) * 0.8F; }

float crescent(Point p) { return std::max(disc(p, 0.95F), 0.75F - length(p - Point{0.5F, 0})); }

float heart(Point p) {
  const float x = std::abs(p.x) * 1.15F;
  const float y = -p.y * 1.1F + 0.1F - 0.75F * x * (1 - 0.45F * x);
  return (std::sqrt(x * x + y * y * 1.2F) - 0.85F) * 0.8F;
}

constexpr std::array<std::string_view, kShapes> kShapeNames = {"disc",  "square",   "triangle", "star",   "ring",
                                                               "cross", "crescent", "heart",    "flower", "plank"};

}  // namespace

std::string_view shape_name(int shape) noexcept { return kShapeNames[static_cast<std::size_t>(shape)]; }

float shape_distance(int shape, Point p) noexcept {
  switch (shape) {
    case 0: return disc(p, 0.9F);
    case 1: return box(p, 0.74F, 0.74F);
    case 2: return polygon(p, 3, 1.05F);
    case 3: return star(p, 5, 0.42F, 1.05F);
    case 4: return std::abs(length(p) - 0.68F) - 0.27F;
    case 5: return std::min(box(p, 0.95F, 0.32F), box(p, 0.32F, 0.95F));
    case 6: return crescent(p);
    case 7: return heart(p);
    case 8: return flower(p);
    default: return box(p, 1.0F, 0.45F);
  }
}

}  // namespace xoe::data::synth

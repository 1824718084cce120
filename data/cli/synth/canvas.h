// The canvas of rendered images, and small geometry.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

namespace xoe::data::synth {

// Display values within [0, 1], because linear light would cost a power function for each pixel. They may leave that
// range until the image is finished.
struct Colour {
  float r = 0;
  float g = 0;
  float b = 0;

  friend Colour operator+(Colour one, Colour two) { return {one.r + two.r, one.g + two.g, one.b + two.b}; }
  friend Colour operator*(Colour a, float by) { return {a.r * by, a.g * by, a.b * by}; }
};

inline constexpr float kTurn = 2 * std::numbers::pi_v<float>;

inline Colour blend(Colour a, Colour b, float share_of_b) { return a * (1 - share_of_b) + b * share_of_b; }
inline float brightness(Colour c) { return 0.3F * c.r + 0.59F * c.g + 0.11F * c.b; }

inline constexpr double kFullTurn = 2 * std::numbers::pi;  // radians

struct Point {
  float x = 0;
  float y = 0;

  friend Point operator-(Point a, Point b) { return {a.x - b.x, a.y - b.y}; }
};
inline float length(Point p) { return std::sqrt(p.x * p.x + p.y * p.y); }

// 0 below `low`, 1 above `high`, smooth between.
inline float smooth_step(float low, float high, float value) {
  const float t = std::clamp((value - low) / (high - low), 0.0F, 1.0F);
  return t * t * (3 - 2 * t);
}

class Canvas {
 public:
  Canvas(int width, int height)
      : width_(width), height_(height), pixels_(static_cast<std::size_t>(width) * static_cast<std::size_t>(height)) {}

  int width() const noexcept { return width_; }
  int height() const noexcept { return height_; }
  int shorter() const noexcept { return std::min(width_, height_); }
  Colour& at(int x, int y) noexcept {
    return pixels_[static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x)];
  }

 private:
  int width_;
  int height_;
  std::vector<Colour> pixels_;
};

// Position, size and angle of an object, whose own coordinates reach from -1 to 1.
struct Placement {
  Point centre;
  float radius = 1;  // pixels
  float angle = 0;   // radians

  Point inside(float x, float y) const {
    const Point d = Point{x, y} - centre;
    const float c = std::cos(angle) / radius;
    const float s = std::sin(angle) / radius;
    return {d.x * c + d.y * s, d.y * c - d.x * s};
  }
};

// Calls visit(x, y, point in own coordinates) for the pixels within `reach` radii of the centre.
template <class Visit>
void for_each_pixel(Canvas& canvas, const Placement& placement, float reach, Visit visit) {
  const float r = placement.radius * reach;
  const int left = std::max(0, static_cast<int>(placement.centre.x - r));
  const int right = std::min(canvas.width() - 1, static_cast<int>(placement.centre.x + r));
  const int top = std::max(0, static_cast<int>(placement.centre.y - r));
  const int bottom = std::min(canvas.height() - 1, static_cast<int>(placement.centre.y + r));
  // Own coordinates are linear in x and y: two additions instead of a rotation for each pixel.
  const Point origin = placement.inside(0, 0);
  const Point dx = placement.inside(1, 0) - origin;
  const Point dy = placement.inside(0, 1) - origin;
  for (int y = top; y <= bottom; ++y)
    for (int x = left; x <= right; ++x) {
      const auto fx = static_cast<float>(x);
      const auto fy = static_cast<float>(y);
      visit(x, y, Point{origin.x + fx * dx.x + fy * dy.x, origin.y + fx * dx.y + fy * dy.y});
    }
}

}  // namespace xoe::data::synth

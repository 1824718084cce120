#include "data/cli/synth/patterns.h"

#include <array>
#include <string_view>

namespace xoe::data::synth {
namespace {

// One pen stroke per line: points as pairs of column (a-i, left to right) and row (0-8, top to bottom).
constexpr std::array<std::string_view, 10> kStrokes = {
    "c0 g0 i2 i6 g8 c8 a6 a2 c0",           // 0
    "b2 e0 e8 - b8 h8",                     // 1
    "a2 c0 g0 i2 i3 a8 i8",                 // 2
    "a1 c0 g0 i2 g4 d4 - g4 i6 g8 c8 a7",   // 3
    "g8 g0 a5 i5",                          // 4
    "i0 b0 a4 f3 i5 i6 g8 c8 a7",           // 5
    "h0 d1 a4 a6 c8 g8 i6 g4 c4 a5",        // 6
    "a0 i0 d8 - c4 g4",                     // 7
    "c4 a2 c0 g0 i2 g4 c4 a6 c8 g8 i6 g4",  // 8
    "b8 f7 i4 i2 g0 c0 a2 c4 g4 i3",        // 9
};

Point point_of(std::string_view pair) {
  return {static_cast<float>(pair[0] - 'a') / 8 - 0.5F, (static_cast<float>(pair[1] - '0') / 8 - 0.5F) * 1.8F};
}

float segment_distance(Point p, Point a, Point b) {
  const Point ab = b - a;
  const Point ap = p - a;
  const float t = std::clamp((ap.x * ab.x + ap.y * ab.y) / (ab.x * ab.x + ab.y * ab.y), 0.0F, 1.0F);
  return length({ap.x - t * ab.x, ap.y - t * ab.y});
}

}  // namespace

float digit_distance(int digit, Point p) noexcept {
  std::string_view strokes = kStrokes[static_cast<std::size_t>(digit)];
  float nearest = 9;
  bool down = false;  // the pen is on the paper
  Point last;
  while (!strokes.empty()) {
    const std::size_t end = std::min(strokes.find(' '), strokes.size());
    const std::string_view word = strokes.substr(0, end);
    strokes.remove_prefix(std::min(end + 1, strokes.size()));
    if (word == "-") {
      down = false;
      continue;
    }
    const Point point = point_of(word);
    if (down) nearest = std::min(nearest, segment_distance(p, last, point));
    last = point;
    down = true;
  }
  return nearest;
}

}  // namespace xoe::data::synth

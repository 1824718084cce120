// Changes that map each level of a channel to another one.
#include <algorithm>
#include <array>

#include "data/image/augment/apply.h"

namespace xoe::data {
namespace {

using Curve = std::array<std::uint8_t, kLevels>;
using LevelCounts = std::array<std::int64_t, kLevels>;

std::array<LevelCounts, 3> count_levels(const Image& image) {
  std::array<LevelCounts, 3> counts = {};
  const std::uint8_t* pixels = image.row(0);
  for (std::size_t i = 0; i < image.bytes(); i += 3)
    for (std::size_t c = 0; c < 3; ++c) ++counts[c][pixels[i + c]];
  return counts;
}

void bend(Image& image, const std::array<Curve, 3>& curves) {
  std::uint8_t* pixels = image.row(0);
  for (std::size_t i = 0; i < image.bytes(); i += 3)
    for (std::size_t c = 0; c < 3; ++c) pixels[i + c] = curves[c][pixels[i + c]];
}

template <class Map>
Curve make_curve(const Map& map) {
  Curve curve = {};
  for (std::size_t i = 0; i < kLevels; ++i) curve[i] = static_cast<std::uint8_t>(map(static_cast<int>(i)));
  return curve;
}

template <class Map>
void bend_all(Image& image, const Map& map) {
  const Curve curve = make_curve(map);
  bend(image, {curve, curve, curve});
}

Curve straight() {
  return make_curve([](int level) { return level; });
}

Curve stretched(const LevelCounts& counts) {
  const auto used = [](std::int64_t count) { return count != 0; };
  const auto lowest = std::find_if(counts.begin(), counts.end(), used) - counts.begin();
  const auto highest =
      kLevels - 1 - static_cast<std::size_t>(std::find_if(counts.rbegin(), counts.rend(), used) - counts.rbegin());
  const int low = static_cast<int>(lowest);
  const int high = static_cast<int>(highest);
  if (high <= low) return straight();
  const double scale = 255.0 / (high - low);
  const double offset = -low * scale;
  return make_curve([&](int level) { return std::clamp(static_cast<int>(level * scale + offset), 0, 255); });
}

Curve equalized(const LevelCounts& counts) {
  std::int64_t sum = 0;
  std::int64_t last = 0;
  for (const std::int64_t count : counts) {
    sum += count;
    if (count != 0) last = count;
  }
  const std::int64_t step = (sum - last) / 255;
  if (step == 0) return straight();
  std::int64_t below = step / 2;
  return make_curve([&](int level) {
    const std::int64_t to = std::min<std::int64_t>(below / step, 255);
    below += counts[static_cast<std::size_t>(level)];
    return to;
  });
}

}  // namespace

void posterize(Image& image, int bits) {
  const int kept = ~((1 << (8 - std::clamp(bits, 0, 8))) - 1);
  bend_all(image, [kept](int level) { return level & kept; });
}

void solarize(Image& image, double threshold) {
  bend_all(image, [threshold](int level) { return level < threshold ? level : 255 - level; });
}

void stretch_contrast(Image& image) {
  const auto counts = count_levels(image);
  bend(image, {stretched(counts[0]), stretched(counts[1]), stretched(counts[2])});
}

void equalize(Image& image) {
  const auto counts = count_levels(image);
  bend(image, {equalized(counts[0]), equalized(counts[1]), equalized(counts[2])});
}

}  // namespace xoe::data

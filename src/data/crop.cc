#include "data/crop.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace xoe::data {
namespace {

constexpr double kMinRatio = 3.0 / 4;
constexpr double kMaxRatio = 4.0 / 3;
constexpr int kAttempts = 10;

// Where one output pixel lies between two input pixels.
struct Tap {
  int first = 0;
  int second = 0;
  float weight = 0;  // of the second
};

// Centre of output pixel i in the source; outside the image its border repeats.
std::vector<Tap> make_taps(double start, double extent, int output, int limit) {
  std::vector<Tap> taps(static_cast<std::size_t>(output));
  for (int i = 0; i < output; ++i) {
    const double at = std::clamp(start + (i + 0.5) * extent / output - 0.5, 0.0, static_cast<double>(limit - 1));
    const int first = static_cast<int>(at);
    taps[static_cast<std::size_t>(i)] = {first, std::min(first + 1, limit - 1), static_cast<float>(at - first)};
  }
  return taps;
}

// One source row at the output's columns, in three planes of `output` floats.
void stretch_row(const std::uint8_t* row, const std::vector<Tap>& taps, float* planes) {
  const std::size_t output = taps.size();
  for (std::size_t x = 0; x < output; ++x) {
    const std::uint8_t* a = row + 3 * taps[x].first;
    const std::uint8_t* b = row + 3 * taps[x].second;
    const float weight = taps[x].weight;
    for (std::size_t c = 0; c < 3; ++c) {
      const auto left = static_cast<float>(a[c]);
      planes[c * output + x] = left + (static_cast<float>(b[c]) - left) * weight;
    }
  }
}

}  // namespace

Region random_crop(int width, int height, Random& random, double min_area) noexcept {
  const double area = static_cast<double>(width) * height;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double wanted = area * random.uniform(min_area, 1);
    const double ratio = std::exp(random.uniform(std::log(kMinRatio), std::log(kMaxRatio)));
    const int w = static_cast<int>(std::lround(std::sqrt(wanted * ratio)));
    const int h = static_cast<int>(std::lround(std::sqrt(wanted / ratio)));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const int x = random.integer(0, width - w);
    const int y = random.integer(0, height - h);
    return {static_cast<double>(x), static_cast<double>(y), static_cast<double>(w), static_cast<double>(h)};
  }
  const double w = std::min<double>(width, height * kMaxRatio);
  const double h = std::min<double>(height, width / kMinRatio);
  return {(width - w) / 2, (height - h) / 2, w, h};
}

Region centre_crop(int width, int height) noexcept {
  const double side = std::min(width, height) * 7.0 / 8;
  return {(width - side) / 2, (height - side) / 2, side, side};
}

void resample(const Image& image, const Region& region, int output, bool flip, float* planes) {
  auto columns = make_taps(region.x, region.width, output, image.width());
  const auto rows = make_taps(region.y, region.height, output, image.height());
  if (flip) std::reverse(columns.begin(), columns.end());
  const auto side = static_cast<std::size_t>(output);
  // The two source rows in use; the next output row often needs one of them again.
  std::vector<float> above(3 * side);
  std::vector<float> below(3 * side);
  int have_above = -1;
  int have_below = -1;
  for (std::size_t y = 0; y < side; ++y) {
    const Tap& tap = rows[y];
    if (tap.first == have_below) {
      std::swap(above, below);
      std::swap(have_above, have_below);
    }
    if (tap.first != have_above) stretch_row(image.row(have_above = tap.first), columns, above.data());
    if (tap.second != have_below) stretch_row(image.row(have_below = tap.second), columns, below.data());
    for (std::size_t c = 0; c < 3; ++c) {
      const float scale = 1 / (255 * kDeviation[c]);
      const float shift = -kMean[c] / kDeviation[c];
      const float* up = above.data() + c * side;
      const float* down = below.data() + c * side;
      float* to = planes + (c * side + y) * side;
      for (std::size_t x = 0; x < side; ++x) to[x] = (up[x] + (down[x] - up[x]) * tap.weight) * scale + shift;
    }
  }
}

}  // namespace xoe::data

#include "data/image/crop.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace xoe::data {
namespace {

constexpr double kMinRatio = 3.0 / 4;
constexpr double kMaxRatio = 4.0 / 3;
constexpr int kCropAttempts = 10;

// [first, end) of the pixels that a tap may read, within [low, high).
std::pair<int, int> span(double start, double extent, int low, int high) noexcept {
  const double first = std::clamp(std::floor(start - 0.5), 1.0 * low, high - 1.0);
  const double end = std::clamp(std::floor(start + extent - 0.5) + 2, first + 1, 1.0 * high);
  return {static_cast<int>(first), static_cast<int>(end)};
}

}  // namespace

Region random_crop(int width, int height, Random& random, double min_area) noexcept {
  const double area = static_cast<double>(width) * height;
  for (int attempt = 0; attempt < kCropAttempts; ++attempt) {
    const double wanted = area * random.uniform(min_area, 1);
    const double ratio = std::exp(random.uniform(std::log(kMinRatio), std::log(kMaxRatio)));
    const int w = static_cast<int>(std::lround(std::sqrt(wanted * ratio)));
    const int h = static_cast<int>(std::lround(std::sqrt(wanted / ratio)));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const int x = random.integer(0, width - w);
    const int y = random.integer(0, height - h);
    return {static_cast<double>(x), static_cast<double>(y), static_cast<double>(w), static_cast<double>(h)};
  }
  const int w = static_cast<int>(std::min<long>(width, std::max(1L, std::lround(height * kMaxRatio))));
  const int h = static_cast<int>(std::min<long>(height, std::max(1L, std::lround(width / kMinRatio))));
  const int x = (width - w) / 2;
  const int y = (height - h) / 2;
  return {static_cast<double>(x), static_cast<double>(y), static_cast<double>(w), static_cast<double>(h)};
}

Region centre_crop(int width, int height) noexcept {
  const double side = std::min(width, height) * 7.0 / 8;
  return {(width - side) / 2, (height - side) / 2, side, side};
}

Crop crop_then_resize(const Region& region) noexcept {
  return {region,
          {static_cast<int>(region.x), static_cast<int>(region.y), static_cast<int>(region.width),
           static_cast<int>(region.height)}};
}

Crop resize_then_crop(const Region& region, int width, int height) noexcept { return {region, {0, 0, width, height}}; }

PixelRect needed_pixels(const Crop& crop) noexcept {
  const auto [left, right] = span(crop.region.x, crop.region.width, crop.limits.x, crop.limits.right());
  const auto [top, bottom] = span(crop.region.y, crop.region.height, crop.limits.y, crop.limits.bottom());
  return {left, top, right - left, bottom - top};
}

}  // namespace xoe::data

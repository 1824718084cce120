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

// The same for a filter that reaches `support` pixels from the centre of each output.
std::pair<int, int> filter_span(double first_centre, double last_centre, double support, int low, int high) noexcept {
  const double first = std::clamp(std::floor(first_centre - support), 1.0 * low, high - 1.0);
  const double end = std::clamp(std::floor(last_centre + support) + 1, first + 1, 1.0 * high);
  return {static_cast<int>(first), static_cast<int>(end)};
}

std::pair<int, int> needed_span(const Resampling& resampling, double start, double extent, int low, int high,
                                int resized) noexcept {
  if (resized > 0) {
    const double scale = static_cast<double>(high - low) / resized;
    const double support =
        filter_support(resampling.interpolation) * (resampling.antialias ? std::max(scale, 1.0) : 1.0);
    return filter_span(start + scale / 2, start + extent - scale / 2, support, low, high);
  }
  if (resampling.interpolation == Interpolation::kBilinear) return span(start, extent, low, high);
  return filter_span(start, start + extent, filter_support(resampling.interpolation), low, high);
}

// Half of the pixels around the crop, halves to even: as Python's round().
int margin(int whole, int part) noexcept {
  const int twice = whole - part;
  const int half = twice / 2;
  return half + (twice % 2 == 1 && half % 2 == 1 ? 1 : 0);
}

int eight_sevenths(int side) noexcept { return static_cast<int>(std::lround(side * 8.0 / 7)); }

int in_proportion(int side, int other, int to) noexcept {
  return static_cast<int>(std::min<std::int64_t>(std::int64_t{side} * other / to, 1 << 30));
}

}  // namespace

double filter_support(Interpolation interpolation) noexcept {
  switch (interpolation) {
    case Interpolation::kBilinear: return 1;
    case Interpolation::kBicubic: return 2;
    case Interpolation::kArea: return 0.5;
  }
  return 1;
}

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

Region centre_crop(int width, int height, ImageSize size) noexcept {
  Region region;
  if (std::int64_t{width} * size.height <= std::int64_t{height} * size.width) {
    region.width = width * 7.0 / 8;
    region.height = region.width * size.height / size.width;
  } else {
    region.height = height * 7.0 / 8;
    region.width = region.height * size.width / size.height;
  }
  region.x = (width - region.width) / 2;
  region.y = (height - region.height) / 2;
  return region;
}

Crop crop_then_resize(const Region& region, Resampling resampling) noexcept {
  return {region,
          {static_cast<int>(region.x), static_cast<int>(region.y), static_cast<int>(region.width),
           static_cast<int>(region.height)},
          resampling};
}

Crop resize_then_crop(const Region& region, int width, int height, Resampling resampling) noexcept {
  return {region, {0, 0, width, height}, resampling};
}

Crop evaluation_crop(int width, int height, ImageSize size, Resampling resampling) noexcept {
  if (!resampling.antialias) return resize_then_crop(centre_crop(width, height, size), width, height, resampling);
  // The smallest size of the image's shape, in whole pixels, that has room for 8/7 of the target.
  PixelRect resized;
  resized.width = eight_sevenths(size.width);
  resized.height = eight_sevenths(size.height);
  if (std::int64_t{width} * resized.height >= std::int64_t{height} * resized.width)
    resized.width = in_proportion(resized.height, width, height);
  else
    resized.height = in_proportion(resized.width, height, width);
  resized.x = margin(resized.width, size.width);
  resized.y = margin(resized.height, size.height);
  const double across = static_cast<double>(width) / resized.width;
  const double down = static_cast<double>(height) / resized.height;
  const Region region{resized.x * across, resized.y * down, size.width * across, size.height * down};
  return {region, {0, 0, width, height}, resampling, resized};
}

PixelRect needed_pixels(const Crop& crop) noexcept {
  const auto [left, right] = needed_span(crop.resampling, crop.region.x, crop.region.width, crop.limits.x,
                                         crop.limits.right(), crop.resized.width);
  const auto [top, bottom] = needed_span(crop.resampling, crop.region.y, crop.region.height, crop.limits.y,
                                         crop.limits.bottom(), crop.resized.height);
  return {left, top, right - left, bottom - top};
}

}  // namespace xoe::data

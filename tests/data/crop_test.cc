// Crops and resampling against a plain double-precision reference.
#include "data/crop.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace xoe::data {
namespace {

Image random_image(int width, int height, std::uint64_t key) {
  Image image;
  image.resize(width, height);
  Random random(key);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < 3 * width; ++x) image.row(y)[x] = static_cast<std::uint8_t>(random.integer(0, 255));
  return image;
}

double pixel(const Image& image, double x, double y, int channel) {
  const double cx = std::clamp(x, 0.0, image.width() - 1.0);
  const double cy = std::clamp(y, 0.0, image.height() - 1.0);
  const int x0 = static_cast<int>(std::floor(cx));
  const int y0 = static_cast<int>(std::floor(cy));
  const int x1 = std::min(x0 + 1, image.width() - 1);
  const int y1 = std::min(y0 + 1, image.height() - 1);
  const double u = cx - x0;
  const double v = cy - y0;
  const auto at = [&](int px, int py) { return static_cast<double>(image.row(py)[3 * px + channel]); };
  return (at(x0, y0) * (1 - u) + at(x1, y0) * u) * (1 - v) + (at(x0, y1) * (1 - u) + at(x1, y1) * u) * v;
}

void compare(const Image& image, const Region& region, int output, bool flip) {
  const auto side = static_cast<std::size_t>(output);
  std::vector<float> planes(3 * side * side);
  resample(image, region, output, flip, planes.data());
  const double mean[] = {0.485, 0.456, 0.406};
  const double deviation[] = {0.229, 0.224, 0.225};
  for (int c = 0; c < 3; ++c)
    for (int y = 0; y < output; ++y)
      for (int x = 0; x < output; ++x) {
        const int column = flip ? output - 1 - x : x;
        const double sx = region.x + (column + 0.5) * region.width / output - 0.5;
        const double sy = region.y + (y + 0.5) * region.height / output - 0.5;
        const double expected = (pixel(image, sx, sy, c) / 255 - mean[c]) / deviation[c];
        const auto at =
            (static_cast<std::size_t>(c) * side + static_cast<std::size_t>(y)) * side + static_cast<std::size_t>(x);
        ASSERT_NEAR(planes[at], expected, 1e-4) << c << " " << x << " " << y;
      }
}

TEST(Resample, FollowsTheReference) {
  Random random(5);
  for (int round = 0; round < 60; ++round) {
    const int width = random.integer(1, 60);
    const int height = random.integer(1, 60);
    const Image image = random_image(width, height, static_cast<std::uint64_t>(round));
    Random crop(static_cast<std::uint64_t>(round));
    compare(image, random_crop(width, height, crop), random.integer(1, 40), round % 2 == 0);
    compare(image, centre_crop(width, height), random.integer(1, 40), round % 2 == 1);
  }
}

TEST(Resample, SameSizeIsTheImageItself) {
  const Image image = random_image(16, 16, 1);
  std::vector<float> planes(3 * 16 * 16);
  resample(image, {0, 0, 16, 16}, 16, false, planes.data());
  for (std::size_t y = 0; y < 16; ++y)
    for (std::size_t x = 0; x < 16; ++x)
      EXPECT_NEAR((planes[y * 16 + x] * kDeviation[0] + kMean[0]) * 255, image.row(static_cast<int>(y))[3 * x], 1e-3);
}

TEST(RandomCrop, StaysWithinImageAreaAndRatio) {
  Random random(9);
  double least = 1;
  double most = 0;
  for (int round = 0; round < 5000; ++round) {
    const int width = random.integer(40, 500);
    const int height = random.integer(40, 500);
    const Region region = random_crop(width, height, random);
    EXPECT_GE(region.x, 0);
    EXPECT_GE(region.y, 0);
    EXPECT_LE(region.x + region.width, width);
    EXPECT_LE(region.y + region.height, height);
    EXPECT_GT(region.width / region.height, 0.70);  // whole pixels round a little
    EXPECT_LT(region.width / region.height, 1.43);
    const double area = region.width * region.height / (static_cast<double>(width) * height);
    least = std::min(least, area);
    most = std::max(most, area);
  }
  EXPECT_LT(least, 0.12);
  EXPECT_GT(least, 0.06);
  EXPECT_GT(most, 0.9);
}

TEST(RandomCrop, VeryLongImagesFallBackToTheirMiddle) {
  Random random(3);
  const Region wide = random_crop(1000, 10, random);
  EXPECT_LE(wide.width, 10 * 4.0 / 3 + 1);
  const Region tall = random_crop(1, 1000, random);
  EXPECT_LE(tall.height, 4.0 / 3 + 1);
  const Region dot = random_crop(1, 1, random);
  EXPECT_EQ(dot.width, 1);
}

TEST(CentreCrop, IsSevenEighthsOfTheShorterSide) {
  const Region region = centre_crop(500, 320);
  EXPECT_DOUBLE_EQ(region.width, 280);
  EXPECT_DOUBLE_EQ(region.height, 280);
  EXPECT_DOUBLE_EQ(region.x, 110);
  EXPECT_DOUBLE_EQ(region.y, 20);
}

}  // namespace
}  // namespace xoe::data

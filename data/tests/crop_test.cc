// Random and centre crops.
#include "data/image/crop.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace xoe::data {
namespace {

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

TEST(RandomCrop, IsWholePixels) {
  Random random(4);
  for (int round = 0; round < 500; ++round) {
    const int width = random.integer(1, 300);
    const int height = random.integer(1, 30);
    const Region region = random_crop(width, height, random);
    const PixelRect limits = crop_then_resize(region).limits;
    EXPECT_EQ(limits.x, region.x);
    EXPECT_EQ(limits.y, region.y);
    EXPECT_EQ(limits.width, region.width);
    EXPECT_EQ(limits.height, region.height);
    EXPECT_GE(region.x, 0);
    EXPECT_GE(region.y, 0);
    EXPECT_LE(region.x + region.width, width);
    EXPECT_LE(region.y + region.height, height);
  }
}

TEST(CentreCrop, IsSevenEighthsOfTheShorterSide) {
  const Region region = centre_crop(500, 320, 224);
  EXPECT_DOUBLE_EQ(region.width, 280);
  EXPECT_DOUBLE_EQ(region.height, 280);
  EXPECT_DOUBLE_EQ(region.x, 110);
  EXPECT_DOUBLE_EQ(region.y, 20);
}

TEST(CentreCrop, HasTheShapeOfTheTarget) {
  const Region wide = centre_crop(500, 320, ImageSize(100, 200));
  EXPECT_DOUBLE_EQ(wide.width, 437.5);
  EXPECT_DOUBLE_EQ(wide.height, 218.75);
  EXPECT_DOUBLE_EQ(wide.y, 50.625);
  const Region tall = centre_crop(500, 320, ImageSize(200, 100));
  EXPECT_DOUBLE_EQ(tall.width, 140);
  EXPECT_DOUBLE_EQ(tall.height, 280);
}

// torchvision: Resize(256) makes 341 x 256 of 500 x 375, and CenterCrop(224) begins at round(58.5), which is 58.
TEST(EvaluationCrop, IsOfWholePixelsOfTheResizedImage) {
  const Resampling smooth{Interpolation::kBilinear, true};
  EXPECT_EQ(evaluation_crop(500, 375, 224, smooth).resized, (PixelRect{58, 16, 341, 256}));
  EXPECT_EQ(evaluation_crop(375, 500, 224, smooth).resized, (PixelRect{16, 58, 256, 341}));
  EXPECT_EQ(evaluation_crop(503, 375, 224, smooth).resized, (PixelRect{60, 16, 343, 256}));  // round(59.5)
  EXPECT_EQ(evaluation_crop(1, 1, 1, smooth).resized, (PixelRect{0, 0, 1, 1}));
  EXPECT_EQ(evaluation_crop(65500, 1, 8192, smooth).limits, (PixelRect{0, 0, 65500, 1}));
  // Without antialiasing the crop is exactly 7/8.
  const Crop sharp = evaluation_crop(500, 375, 224, {});
  EXPECT_EQ(sharp.resized, PixelRect{});
  EXPECT_DOUBLE_EQ(sharp.region.width, 328.125);
}

}  // namespace
}  // namespace xoe::data

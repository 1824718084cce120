// Smaller images, and what headers say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "data/cli/convert/downscale.h"
#include "data/cli/convert/reencode.h"
#include "data/cli/image_facts.h"
#include "data/jpeg/exif.h"
#include "data/png/png.h"
#include "data/tests/exif_segment.h"
#include "data/tests/jpeg_kinds.h"

namespace xoe::data {
namespace {

Image noise(int width, int height) {
  Image image;
  image.resize(width, height);
  Random random(5);
  for (int y = 0; y < height; ++y)
    for (std::size_t x = 0; x < image.stride(); ++x)
      image.row(y)[x] = static_cast<std::uint8_t>(random.integer(0, 255));
  return image;
}

// The definition: every source pixel has the weight of the triangle over its place, in both directions.
double exact(const Image& from, int width, int height, int x, int y, int channel) {
  const double across = static_cast<double>(from.width()) / width;
  const double down = static_cast<double>(from.height()) / height;
  double sum = 0;
  double weights = 0;
  for (int j = 0; j < from.height(); ++j)
    for (int i = 0; i < from.width(); ++i) {
      const double wx = std::max(0.0, 1 - std::abs((i + 0.5) / across - (x + 0.5)));
      const double wy = std::max(0.0, 1 - std::abs((j + 0.5) / down - (y + 0.5)));
      sum += wx * wy * from.row(j)[3 * i + channel];
      weights += wx * wy;
    }
  return sum / weights;
}

TEST(Shrink, IsTheTriangleFilter) {
  const Image from = noise(37, 29);
  for (const auto& [width, height] : {std::pair{37, 29}, {36, 28}, {19, 15}, {7, 5}, {1, 1}, {37, 2}}) {
    Image to;
    downscale(from, width, height, to);
    ASSERT_EQ(to.width(), width);
    ASSERT_EQ(to.height(), height);
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x)
        for (int c = 0; c < 3; ++c)
          ASSERT_NEAR(to.row(y)[3 * x + c], exact(from, width, height, x, y, c), 0.51) << width << "x" << height;
  }
}

TEST(Shrink, KeepsTheOrientationOfJpegs) {
  const std::string jpeg = encode_jpeg(noise(60, 40)).value();
  Reencoder reencoder({.resize_shorter = 20});
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::string turned = with_exif(jpeg, orientation);
    const auto shrunk = reencoder.run({.bytes = turned, .targets = {}}).value();
    EXPECT_EQ(shrunk.facts.width, 30);
    EXPECT_EQ(exif_orientation(shrunk.bytes), orientation);
    Image image;
    EXPECT_TRUE(JpegDecoder().decode(shrunk.bytes, image));
  }
}

TEST(ImageFacts, OfEveryKind) {
  const Image image = noise(40, 24);
  Codecs codecs;
  const auto facts = [&codecs](std::string_view bytes) {
    return read_image_facts({.bytes = bytes, .targets = {}}, codecs).value();
  };
  const ImageFacts baseline = facts(write_jpeg(image, {}));
  EXPECT_EQ(baseline.kind, "baseline JPEG");
  EXPECT_EQ(baseline.width, 40);
  EXPECT_EQ(baseline.height, 24);
  EXPECT_EQ(baseline.colour(), "colour");
  EXPECT_EQ(facts(write_jpeg(image, {.progressive = true})).kind, "progressive JPEG");
  EXPECT_EQ(facts(write_jpeg(image, {.across = 1, .down = 1, .grey = true})).colour(), "grey");
  const ImageFacts png = facts(encode_png(image).value());
  EXPECT_EQ(png.kind, "PNG");
  EXPECT_EQ(png.width, 40);
  EXPECT_EQ(png.channels, 3);
}

TEST(ImageFacts, CutOffAnywhereIsAnError) {
  const Image image = noise(40, 24);
  Codecs codecs;
  for (const std::string& whole : {write_jpeg(image, {}), encode_png(image).value()}) {
    const std::size_t header = 700;
    bool good = false;
    for (std::size_t bytes = 0; bytes < std::min(whole.size(), header); ++bytes) {
      const auto facts = read_image_facts({.bytes = std::string_view(whole).substr(0, bytes), .targets = {}}, codecs);
      EXPECT_GE(facts.has_value(), good) << bytes;  // once the size is there it stays
      good = facts.has_value();
    }
    EXPECT_TRUE(good);
  }
}

}  // namespace
}  // namespace xoe::data

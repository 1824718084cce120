// Resizing as torchvision does it (data/tests/reference/resize.json; resize_test.py compares live), with every
// interpolation and on every instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/testing/places.h"
#include "data/image/push.h"
#include "data/image/resizer.h"
#include "data/png/png.h"
#include "data/tests/every_target.h"
#include "xoe/data/image_transform.h"

namespace xoe::data {
namespace {

using Json = nlohmann::json;

std::vector<std::uint8_t> bytes_of(const std::string& hex) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

Image image_of(const Json& json) {
  Image image;
  image.resize(json["width"], json["height"]);
  const auto pixels = bytes_of(json["pixels"]);
  std::copy(pixels.begin(), pixels.end(), image.row(0));
  return image;
}

Interpolation interpolation_of(const std::string& name) {
  int i = 0;
  while (interpolation_name(Interpolation(i)) != name) ++i;
  return Interpolation(i);
}

struct ReferenceCase {
  ImageSize size;
  PixelOptions options;
  std::vector<int> crop;  // x, y, width, height, flip; empty: evaluation
  std::vector<std::uint8_t> expected;
};

ReferenceCase case_of(const Json& json) {
  ReferenceCase one;
  one.size = ImageSize(json["size"][0], json["size"][1]);
  one.options.interpolation = interpolation_of(json["interpolation"]);
  one.options.antialias = json["antialias"];
  if (!json["crop"].is_null()) one.crop = json["crop"].get<std::vector<int>>();
  one.expected = bytes_of(json["pixels"]);
  return one;
}

std::vector<std::uint8_t> evaluated(const Image& image, const ReferenceCase& one) {
  std::vector<std::uint8_t> pixels(one.expected.size());
  const ImageTransform transform{
      .size = one.size, .training = false, .pixels = one.options, .dtype = DType::kUint8, .layout = Layout::kNhwc};
  EXPECT_TRUE(ImageTransformer().run(transform, encode_png(image).value(), 0, pixels.data()));
  return pixels;
}

std::vector<std::uint8_t> cropped(const Image& image, const ReferenceCase& one) {
  std::vector<std::uint8_t> pixels(one.expected.size());
  const Region region{1.0 * one.crop[0], 1.0 * one.crop[1], 1.0 * one.crop[2], 1.0 * one.crop[3]};
  const Crop crop = crop_then_resize(region, {one.options.interpolation, one.options.antialias});
  Resizer resizer;
  resizer.prepare(crop, {.to = pixels.data(),
                         .dtype = DType::kUint8,
                         .layout = Layout::kNhwc,
                         .width = one.size.width,
                         .height = one.size.height,
                         .flip = one.crop[4] != 0});
  push_image(image, needed_pixels(crop), resizer);
  EXPECT_TRUE(resizer.complete());
  return pixels;
}

int largest_difference(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) {
  int most = a.size() == b.size() ? 0 : 256;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

TEST(Resize, IsWithinOneLevelOfTorchvision) {
  std::ifstream file(source_file("data/tests/reference/resize.json"));
  const Json reference = Json::parse(file);
  std::vector<Image> images;
  for (const Json& image : reference["images"]) images.push_back(image_of(image));
  for (const Json& json : reference["cases"]) {
    const ReferenceCase one = case_of(json);
    const Image& image = images.at(json["image"]);
    const auto made = one.crop.empty() ? evaluated(image, one) : cropped(image, one);
    EXPECT_LE(largest_difference(made, one.expected), 1)
        << "image " << json["image"] << " " << json["interpolation"] << " antialias " << json["antialias"] << " size "
        << json["size"] << " crop " << json["crop"];
  }
}

}  // namespace
}  // namespace xoe::data

// Makes images for resize_test.py. Each line of standard input is a job:
//
//   HEIGHT WIDTH INTERPOLATION ANTIALIAS ORIENTATION QUALITY KEY FILE
//
// with 0 or 1 for ANTIALIAS, ORIENTATION (by EXIF) and QUALITY (1: fast), and for evaluation a KEY of -1. Writes for
// each the crop (x, y, width, height, flip as 32-bit integers; all 0 for evaluation) and the pixels as rows of 8-bit
// RGB.
#include <array>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "data/image/crop.h"
#include "data/load/transform_image.h"
#include "xoe/data/image_transform.h"

namespace {

using namespace xoe::data;

int fail(const std::string& job, const std::string& why) {
  std::cerr << job << ": " << why << '\n';
  return 1;
}

Interpolation interpolation_of(const std::string& name) {
  for (const Interpolation one : {Interpolation::kBilinear, Interpolation::kBicubic})
    if (interpolation_name(one) == name) return one;
  return Interpolation::kArea;
}

// The crop and the flip that the transformer draws for this key.
std::array<std::int32_t, 5> drawn(const std::string& file, const ImageTransform& transform, std::int64_t key) {
  ImageDecoder decoder;
  const auto facts = decoder.open({.bytes = file, .targets = {}}, transform.pixels);
  if (!facts) return {};
  Random random(static_cast<std::uint64_t>(key));
  const PixelRect crop = crop_then_resize(random_crop(facts->width, facts->height, random)).limits;
  return {crop.x, crop.y, crop.width, crop.height, random.chance(0.5) ? 1 : 0};
}

}  // namespace

int main() {
  ImageTransformer transformer;
  for (std::string job; std::getline(std::cin, job);) {
    std::istringstream words(job);
    std::string interpolation;
    std::string path;
    std::int64_t key = -1;
    bool fast = false;
    ImageTransform transform{.dtype = xoe::DType::kUint8, .layout = Layout::kNhwc};
    words >> transform.size.height >> transform.size.width >> interpolation >> transform.pixels.antialias >>
        transform.pixels.exif_orientation >> fast >> key >> path;
    transform.pixels.interpolation = interpolation_of(interpolation);
    transform.quality = fast ? Quality::kFast : Quality::kExact;
    transform.training = key >= 0;
    std::ifstream in(path, std::ios::binary);
    const std::string file{std::istreambuf_iterator<char>(in), {}};
    std::vector<std::uint8_t> pixels(3 * static_cast<std::size_t>(transform.size.pixels()));
    const auto made = transformer.run(transform, file, static_cast<std::uint64_t>(key), pixels.data());
    if (!made) return fail(job, made.error().message());
    const auto crop = transform.training ? drawn(file, transform, key) : std::array<std::int32_t, 5>{};
    std::cout.write(reinterpret_cast<const char*>(crop.data()), sizeof(crop));
    std::cout.write(reinterpret_cast<const char*>(pixels.data()), static_cast<std::streamsize>(pixels.size()));
  }
  return std::cout.flush() ? 0 : fail("end", "cannot write");
}

// How delivered images are made and how they lie in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace xoe::data {

enum class Layout : std::uint8_t {
  kNchw,  // channel by channel
  kNhwc,  // pixel by pixel
};

enum class Quality : std::uint8_t {
  // What decoding the whole image, cropping it, and resizing it give, within one grey level, borders of the crop
  // included.
  kExact,
  // JPEG's planes are resized before their colours are converted: somewhat faster, mean difference below half a grey
  // level, more at saturated edges (docs/guide/data.md has the figures).
  kFast,
};

// The weights of source pixels around the centre of an output pixel; with antialiasing they are stretched by the factor
// by which the image shrinks. Named and defined as in torchvision and Pillow.
enum class Interpolation : std::uint8_t {
  kBilinear,
  kBicubic,  // Keys 1981, with a = -0.5; without antialiasing -0.75, as in torchvision
  kArea,     // the mean of the pixels under the output pixel, torchvision's BOX; only with antialiasing
};
std::string_view interpolation_name(Interpolation interpolation) noexcept;  // "bilinear"; empty: there is no such one

// How the pixels of a file are read and resized.
struct PixelOptions {
  Interpolation interpolation = Interpolation::kBilinear;
  bool antialias = true;          // false: an image that shrinks keeps only the pixels near each output pixel
  bool exif_orientation = false;  // turn a JPEG as its EXIF data say, before it is cropped
  std::int64_t max_pixels = std::int64_t{1} << 26;  // of an image; a larger one is `resource_exhausted`
};

// In pixels. A single number is the side of a square.
struct ImageSize {
  int height = 224;
  int width = 224;

  constexpr ImageSize() = default;
  constexpr ImageSize(int side) noexcept : height(side), width(side) {}  // NOLINT(google-explicit-constructor)
  constexpr ImageSize(int rows, int columns) noexcept : height(rows), width(columns) {}

  constexpr std::int64_t pixels() const noexcept { return std::int64_t{height} * width; }
  friend constexpr bool operator==(const ImageSize&, const ImageSize&) = default;
};
std::string to_text(ImageSize size);  // "224", or "192x256" for height and width
// Reads these, and "192,256". nullopt: something else.
std::optional<ImageSize> parse_image_size(std::string_view text);

}  // namespace xoe::data

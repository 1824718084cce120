#include "xoe/data/pixels.h"

#include <charconv>

namespace xoe::data {
namespace {

std::optional<int> side_of(std::string_view text) {
  int side = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), side);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return side;
}

}  // namespace

std::string_view interpolation_name(Interpolation interpolation) noexcept {
  switch (interpolation) {
    case Interpolation::kBilinear: return "bilinear";
    case Interpolation::kBicubic: return "bicubic";
    case Interpolation::kArea: return "area";
  }
  return "";
}

std::string to_text(ImageSize size) {
  std::string text = std::to_string(size.height);
  if (size.width != size.height) text += "x" + std::to_string(size.width);
  return text;
}

std::optional<ImageSize> parse_image_size(std::string_view text) {
  const std::size_t by = text.find_first_of("x,");
  const auto height = side_of(text.substr(0, by));
  const auto width = by == std::string_view::npos ? height : side_of(text.substr(by + 1));
  if (!height || !width) return std::nullopt;
  return ImageSize(*height, *width);
}

}  // namespace xoe::data

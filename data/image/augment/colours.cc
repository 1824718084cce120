// Changes that blend an image with a duller one, and hue. Floats round where Pillow's do.
#include <algorithm>

#include "data/image/augment/apply.h"

namespace xoe::data {
namespace {

// Linear from `dull` (factor 0) to `level` (factor 1) and beyond; truncated.
std::uint8_t blend(std::uint8_t dull, std::uint8_t level, float factor) {
  const float mixed = static_cast<float>(dull) + factor * static_cast<float>(level - dull);
  return static_cast<std::uint8_t>(static_cast<int>(std::clamp(mixed, 0.0F, 255.0F)));
}

// BT.601 in 16-bit fixed point.
std::uint8_t grey_of(const std::uint8_t* pixel) {
  return static_cast<std::uint8_t>((pixel[0] * 19595U + pixel[1] * 38470U + pixel[2] * 7471U + 0x8000U) >> 16);
}

void blend_all(Image& image, std::uint8_t dull, float factor) {
  std::array<std::uint8_t, kLevels> table = {};
  for (std::size_t i = 0; i < kLevels; ++i) table[i] = blend(dull, static_cast<std::uint8_t>(i), factor);
  std::uint8_t* levels = image.row(0);
  for (std::size_t i = 0; i < image.bytes(); ++i) levels[i] = table[levels[i]];
}

struct Hsv {
  std::uint8_t hue = 0;
  std::uint8_t saturation = 0;
  std::uint8_t value = 0;
};

Hsv to_hsv(const std::uint8_t* rgb) {
  const int r = rgb[0];
  const int g = rgb[1];
  const int b = rgb[2];
  const int most = std::max({r, g, b});
  const int least = std::min({r, g, b});
  if (most == least) return {0, 0, static_cast<std::uint8_t>(most)};
  const auto range = static_cast<float>(most - least);
  const float saturation = range / static_cast<float>(most);
  const float red = static_cast<float>(most - r) / range;
  const float green = static_cast<float>(most - g) / range;
  const float blue = static_cast<float>(most - b) / range;
  // Without a branch, which random colours would make the processor mispredict.
  const auto from_green = static_cast<float>(2.0 + red - blue);
  const auto from_blue = static_cast<float>(4.0 + green - red);
  const float not_red = g == most ? from_green : from_blue;
  float hue = r == most ? blue - green : not_red;
  const double turns = hue / 6.0 + 1.0;  // above 0 and below 2
  hue = static_cast<float>(turns >= 1 ? turns - 1 : turns);
  return {static_cast<std::uint8_t>(static_cast<int>(hue * 255.0)),
          static_cast<std::uint8_t>(static_cast<int>(saturation * 255.0)), static_cast<std::uint8_t>(most)};
}

// Rounds to the nearest, halves up, without a call: truncates level + 0.5.
std::uint8_t rounded(double level) { return static_cast<std::uint8_t>(static_cast<int>(2 * level + 1) / 2); }

// The meaning of a byte of hue.
struct HueTurn {
  std::array<std::uint8_t, 3> sources = {};  // of red, green and blue: index into {v, p, q, t}
  float on = 0;                              // fraction of the sixth of the circle
};

constexpr std::array<HueTurn, kLevels> make_turns() {
  constexpr std::array<std::array<std::uint8_t, 3>, 6> kSources = {
      {{0, 3, 1}, {2, 0, 1}, {1, 0, 3}, {1, 2, 0}, {3, 1, 0}, {0, 1, 2}}};
  std::array<HueTurn, kLevels> turns = {};
  for (std::size_t hue = 0; hue < kLevels; ++hue) {
    const double turn = static_cast<double>(hue) * 6.0 / 255.0;
    const int sector = static_cast<int>(turn);
    turns[hue] = {kSources[static_cast<std::size_t>(sector % 6)], static_cast<float>(turn - sector)};
  }
  return turns;
}
constexpr std::array<HueTurn, kLevels> kTurns = make_turns();

void to_rgb(const Hsv& hsv, std::uint8_t* rgb) {
  const HueTurn& turn = kTurns[hsv.hue];
  const double v = hsv.value;
  const auto s = static_cast<float>(static_cast<float>(hsv.saturation) / 255.0);
  const std::array<std::uint8_t, 4> levels = {hsv.value, rounded(static_cast<float>(v * (1.0 - s))),
                                              rounded(static_cast<float>(v * (1.0 - s * turn.on))),
                                              rounded(static_cast<float>(v * (1.0 - s * (1.0 - turn.on))))};
  for (std::size_t c = 0; c < 3; ++c) rgb[c] = levels[turn.sources[c]];
}

// `rows` start at their first pixels, `to` at the second one, from which `count` samples are written.
void sharpen_row(const std::array<const std::uint8_t*, 3>& rows, std::uint8_t* to, std::size_t count, float factor) {
  constexpr float kAround = 1.0F / 13;
  constexpr float kMiddle = 5.0F / 13;
  const auto level = [](std::uint8_t x) { return static_cast<float>(x); };
  for (std::size_t i = 0; i < count; ++i) {
    float sum = 0.5F;
    for (const std::size_t r : {2U, 1U, 0U}) {  // Pillow's order, for the sum rounds
      const std::uint8_t* row = rows[r] + i;
      sum += level(row[0]) * kAround + level(row[3]) * (r == 1 ? kMiddle : kAround) + level(row[6]) * kAround;
    }
    to[i] = blend(static_cast<std::uint8_t>(static_cast<int>(sum)), rows[1][i + 3], factor);
  }
}

}  // namespace

void change_brightness(Image& image, double factor) { blend_all(image, 0, static_cast<float>(factor)); }

void change_contrast(Image& image, double factor) {
  std::uint64_t sum = 0;
  const std::uint8_t* pixels = image.row(0);
  const std::size_t bytes = image.bytes();
  for (std::size_t i = 0; i < bytes; i += 3) sum += grey_of(pixels + i);
  const std::uint64_t pixel_count = bytes / 3;
  const std::uint64_t mean = (2 * sum + pixel_count) / (2 * pixel_count);  // rounded
  blend_all(image, static_cast<std::uint8_t>(mean), static_cast<float>(factor));
}

void change_saturation(Image& image, double factor) {
  std::uint8_t* pixels = image.row(0);
  for (std::size_t i = 0; i < image.bytes(); i += 3) {
    const std::uint8_t grey = grey_of(pixels + i);
    for (std::size_t c = i; c < i + 3; ++c) pixels[c] = blend(grey, pixels[c], static_cast<float>(factor));
  }
}

void change_hue(Image& image, double turns) {
  const auto shift = static_cast<int>(turns * 255);
  std::uint8_t* pixels = image.row(0);
  for (std::size_t i = 0; i < image.bytes(); i += 3) {
    Hsv hsv = to_hsv(pixels + i);
    hsv.hue = static_cast<std::uint8_t>(hsv.hue + shift);
    to_rgb(hsv, pixels + i);
  }
}

// Blends with a smoothed image: weight 5 in the middle and 1 around it. Its border pixels are the image's own.
void sharpen(const Image& image, Image& to, double factor) {
  to.resize(image.width(), image.height());
  std::copy_n(image.row(0), image.bytes(), to.row(0));
  if (image.width() < 3) return;
  const std::size_t inner = image.stride() - 6;
  for (int y = 1; y + 1 < image.height(); ++y)
    sharpen_row({image.row(y - 1), image.row(y), image.row(y + 1)}, to.row(y) + 3, inner, static_cast<float>(factor));
}

}  // namespace xoe::data

// The fused resizer against its definition in double precision, on every instruction set.
#include "data/image/resizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "data/image/push.h"
#include "data/tests/every_target.h"

namespace xoe::data {
namespace {

// An image of noise as planes.
struct Picture {
  PlaneLayout layout;
  std::array<std::vector<std::uint8_t>, 3> planes;

  int width(std::size_t p) const { return (layout.width + layout.across[p] - 1) / layout.across[p]; }
  int height(std::size_t p) const { return (layout.height + layout.down[p] - 1) / layout.down[p]; }
  double sample(std::size_t p, int x, int y) const { return planes[p].at(index(p, x, y)); }
  std::size_t index(std::size_t p, int x, int y) const {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(width(p)) + static_cast<std::size_t>(x);
  }
};

Picture make_picture(int width, int height, Colour colour, Random& random) {
  Picture picture;
  picture.layout.colour = colour;
  picture.layout.width = width;
  picture.layout.height = height;
  if (colour == Colour::kYcc)
    for (std::size_t p = 1; p < 3; ++p) {
      picture.layout.across[p] = p == 1 || random.chance(0.2) ? random.integer(1, 4) : picture.layout.across[1];
      picture.layout.down[p] = p == 1 || random.chance(0.2) ? random.integer(1, 2) : picture.layout.down[1];
    }
  for (std::size_t p = 0; p < static_cast<std::size_t>(picture.layout.planes()); ++p) {
    picture.planes[p].resize(picture.index(p, 0, picture.height(p)));
    for (auto& sample : picture.planes[p]) sample = static_cast<std::uint8_t>(random.bits());
  }
  return picture;
}

enum class Order { kBlocks, kRows, kPlanes };

// At least the needed samples; each row in memory of its own, so that a sanitizer sees what is read outside.
void push(const Picture& picture, const PixelRect& needed, Order order, Random& random, RowSink& sink) {
  std::array<PixelRect, 3> windows;
  const auto planes = static_cast<std::size_t>(picture.layout.planes());
  for (std::size_t p = 0; p < planes; ++p) {
    const int across = picture.layout.across[p];
    const int down = picture.layout.down[p];
    const int more_x = random.integer(across > 1 ? 1 : 0, 5);
    const int more_y = random.integer(down > 1 ? 1 : 0, 5);
    const int left = std::max(0, needed.x / across - more_x);
    const int top = std::max(0, needed.y / down - more_y);
    const int right = std::min(picture.width(p), (needed.right() + across - 1) / across + more_x);
    const int bottom = std::min(picture.height(p), (needed.bottom() + down - 1) / down + more_y);
    windows[p] = {left, top, right - left, bottom - top};
  }
  sink.start(picture.layout, windows);
  const int step = order == Order::kBlocks ? 8 : order == Order::kRows ? 1 : 1 << 20;
  std::array<int, 3> next = {windows[0].y, windows[1].y, windows[2].y};
  for (bool more = true; more;) {
    more = false;
    for (std::size_t p = 0; p < planes; ++p) {
      for (int i = 0; i < step && next[p] < windows[p].bottom(); ++i, ++next[p]) {
        const auto from = picture.planes[p].begin() + next[p] * picture.width(p) + windows[p].x;
        std::vector<std::uint8_t> row(from, from + windows[p].width);
        while (row.size() < static_cast<std::size_t>(windows[p].width) + kRowSlack)
          row.push_back(static_cast<std::uint8_t>(random.bits()));
        sink.row(static_cast<int>(p), next[p], row.data());
      }
      more = more || next[p] < windows[p].bottom();
    }
  }
}

// One plane at a pixel position, which stays among `needed`; samples are centred over their pixels.
double interpolate(const Picture& picture, std::size_t p, const PixelRect& needed, double x, double y) {
  const int right = picture.width(p) - 1;
  const int bottom = picture.height(p) - 1;
  const double px = std::clamp(x, needed.x + 0.5, needed.right() - 0.5);
  const double py = std::clamp(y, needed.y + 0.5, needed.bottom() - 0.5);
  const double u = std::clamp(px / picture.layout.across[p] - 0.5, 0.0, 1.0 * right);
  const double v = std::clamp(py / picture.layout.down[p] - 0.5, 0.0, 1.0 * bottom);
  const int x0 = static_cast<int>(std::floor(u));
  const int y0 = static_cast<int>(std::floor(v));
  const int x1 = std::min(x0 + 1, right);
  const int y1 = std::min(y0 + 1, bottom);
  const double upper = picture.sample(p, x0, y0) * (1 - (u - x0)) + picture.sample(p, x1, y0) * (u - x0);
  const double lower = picture.sample(p, x0, y1) * (1 - (u - x0)) + picture.sample(p, x1, y1) * (u - x0);
  return upper * (1 - (v - y0)) + lower * (v - y0);
}

// The level of a channel as the definition has it.
double level(const Picture& picture, const PixelRect& needed, double x, double y, int channel, int channels) {
  std::array<double, 3> s = {};
  for (std::size_t p = 0; p < static_cast<std::size_t>(picture.layout.planes()); ++p)
    s[p] = interpolate(picture, p, needed, x, y);
  if (picture.layout.colour == Colour::kGrey) return s[0];
  if (picture.layout.colour == Colour::kRgb)
    return channels == 3 ? s[static_cast<std::size_t>(channel)] : 0.299 * s[0] + 0.587 * s[1] + 0.114 * s[2];
  if (channels == 1) return s[0];
  const double cb = s[1] - 128;
  const double cr = s[2] - 128;
  const double rgb[] = {s[0] + 1.402 * cr, s[0] - 0.114 * 1.772 / 0.587 * cb - 0.299 * 1.402 / 0.587 * cr,
                        s[0] + 1.772 * cb};
  return std::clamp(rgb[channel], 0.0, 255.0);
}

double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const double digits = (bits & 1023) / 1024.0;
  const double size = exponent == 0 ? std::ldexp(digits, -14) : std::ldexp(1 + digits, exponent - 15);
  return (bits & 0x8000) != 0 ? -size : size;
}

double element(const void* data, DType dtype, std::size_t i) {
  if (dtype == DType::kUint8) return static_cast<const std::uint8_t*>(data)[i];
  if (dtype == DType::kFloat32) return static_cast<const float*>(data)[i];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(data)[i];
  if (dtype == DType::kFloat16) return half_value(bits);
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

// Half of the last digit of the type at that value, in levels.
double rounding(DType dtype, double value) {
  if (dtype == DType::kUint8) return 0.5;
  const double unit = dtype == DType::kFloat16 ? 0x1p-11 : dtype == DType::kBfloat16 ? 0x1p-8 : 0x1p-22;
  return std::max(std::abs(value), 0x1p-14) * unit;
}

void compare(const Picture& picture, const Crop& crop, Target target, Order order, Random& random, Resizer& resizer) {
  const auto elements = static_cast<std::size_t>(target.channels) * static_cast<std::size_t>(target.width) *
                        static_cast<std::size_t>(target.height);
  constexpr std::uint8_t kUntouched = 0xA5;
  std::vector<std::uint8_t> memory(elements * dtype_size(target.dtype) + 64, kUntouched);
  target.to = memory.data();
  resizer.prepare(crop, target);
  const PixelRect needed = needed_pixels(crop);
  push(picture, needed, order, random, resizer);
  ASSERT_TRUE(resizer.complete());
  EXPECT_THAT(std::vector(memory.end() - 64, memory.end()), ::testing::Each(kUntouched));
  for (int c = 0; c < target.channels; ++c)
    for (int y = 0; y < target.height; ++y)
      for (int x = 0; x < target.width; ++x) {
        const int column = target.flip ? target.width - 1 - x : x;
        const double expected =
            level(picture, needed, crop.region.x + (column + 0.5) * crop.region.width / target.width,
                  crop.region.y + (y + 0.5) * crop.region.height / target.height, c, target.channels);
        const int at = target.layout == Layout::kNchw ? (c * target.height + y) * target.width + x
                                                      : (y * target.width + x) * target.channels + c;
        const double found = element(target.to, target.dtype, static_cast<std::size_t>(at));
        const auto i = static_cast<std::size_t>(c);
        const bool levels = target.dtype == DType::kUint8;
        const double scale = levels ? 1 : 1 / (255 * target.deviation[i]);
        const double wanted = levels ? expected : expected * scale - target.mean[i] / target.deviation[i];
        ASSERT_NEAR(found, wanted, 0.01 * scale + rounding(target.dtype, wanted)) << c << " " << x << " " << y;
      }
}

Crop any_crop(int width, int height, Random& random) {
  if (random.chance(0.3)) return resize_then_crop(centre_crop(width, height, 224), width, height);
  const int w = random.integer(1, width);
  const int h = random.integer(1, height);
  return crop_then_resize({1.0 * random.integer(0, width - w), 1.0 * random.integer(0, height - h), 1.0 * w, 1.0 * h});
}

void compare_many(Colour colour, int rounds, int largest_input, int largest_output) {
  Random random(static_cast<std::uint64_t>(colour) + 1);
  Resizer resizer;  // one for all, as a worker has it
  for (int round = 0; round < rounds; ++round) {
    const int width = random.integer(1, largest_input);
    const int height = random.integer(1, largest_input);
    const Picture picture = make_picture(width, height, colour, random);
    const Crop crop = any_crop(width, height, random);
    for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16, DType::kUint8})
      for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
        Target target;
        target.dtype = dtype;
        target.layout = layout;
        target.width = random.integer(1, largest_output);
        target.height = random.integer(1, largest_output);
        target.channels = random.chance(0.2) ? 1 : 3;
        target.flip = random.chance(0.5);
        SCOPED_TRACE(::testing::Message() << "round " << round << ": " << width << " x " << height << " to "
                                          << target.width << " x " << target.height << ", " << dtype_name(dtype));
        compare(picture, crop, target, static_cast<Order>(random.integer(0, 2)), random, resizer);
        if (::testing::Test::HasFatalFailure()) return;
      }
  }
}

TEST(Resizer, GreyIsAsDefined) {
  on_every_target([] { compare_many(Colour::kGrey, 40, 70, 50); });
}
TEST(Resizer, RgbIsAsDefined) {
  on_every_target([] { compare_many(Colour::kRgb, 60, 70, 50); });
}
TEST(Resizer, YccIsAsDefined) {
  on_every_target([] { compare_many(Colour::kYcc, 60, 70, 50); });
}

// Reductions by 2 to 40 use each way to find samples: many in one load, few in one, one by one.
TEST(Resizer, LargeReductionsAreAsDefined) {
  on_every_target([] {
    Random random(11);
    Resizer resizer;
    for (const int factor : {1, 2, 3, 4, 5, 7, 9, 17, 22, 40}) {
      SCOPED_TRACE(factor);
      const int width = 33 * factor + random.integer(0, factor);
      const Picture picture = make_picture(width, 9, Colour::kYcc, random);
      Target target;
      target.width = 33;
      target.height = 4;
      target.flip = factor % 2 == 0;
      compare(picture, crop_then_resize({0, 0, 1.0 * width, 9}), target, Order::kBlocks, random, resizer);
    }
  });
}

// Large aligned targets are written past the cache; the same values must arrive.
TEST(Resizer, LargeTargetsAreTheSame) {
  on_every_target([] {
    Random random(12);
    Resizer resizer;
    for (const Colour colour : {Colour::kRgb, Colour::kYcc}) {
      const Picture picture = make_picture(64, 48, colour, random);
      const Crop crop = any_crop(64, 48, random);
      for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kUint8})
        for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
          Target target{.to = nullptr, .dtype = dtype, .layout = layout, .width = 256, .height = 256};
          const std::size_t bytes = 3 * 256 * 256 * dtype_size(dtype);
          AlignedArray<std::uint8_t> aligned;
          aligned.resize(bytes);
          std::vector<std::uint8_t> memory(bytes + 64);
          std::uint8_t* odd = memory.data() + (reinterpret_cast<std::uintptr_t>(memory.data()) % 64 == 16 ? 32 : 16);
          for (std::uint8_t* to : {aligned.data(), odd}) {
            target.to = to;
            resizer.prepare(crop, target);
            push(picture, needed_pixels(crop), Order::kBlocks, random, resizer);
          }
          EXPECT_EQ(std::memcmp(aligned.data(), odd, bytes), 0) << dtype_name(dtype);
        }
    }
  });
}

TEST(Resizer, EveryInstructionSetMakesTheSamePixels) {
  Random random(13);
  const Picture picture = make_picture(100, 80, Colour::kYcc, random);
  std::vector<std::vector<float>> results;
  on_every_target([&] {
    results.emplace_back(3 * 50 * 60);
    Resizer resizer;
    const Crop crop = crop_then_resize({7, 5, 90, 61});
    resizer.prepare(crop, {.to = results.back().data(), .width = 50, .height = 60});
    push(picture, needed_pixels(crop), Order::kBlocks, random, resizer);
  });
  for (const auto& result : results) EXPECT_EQ(result, results.front());
}

// ---- Filters of many taps

double filter_weight(double x, const Resampling& how) {
  const double a = how.antialias ? -0.5 : -0.75;
  const double d = std::abs(x);
  switch (how.interpolation) {
    case Interpolation::kBilinear: return std::max(0.0, 1 - d);
    case Interpolation::kBicubic:
      if (d < 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
      return d < 2 ? (((d - 5) * d + 8) * d - 4) * a : 0;
    case Interpolation::kArea: return x > -0.5 && x <= 0.5 ? 1 : 0;
  }
  return 0;
}

// The weights of all samples from `begin` to `end` for an output whose centre is at `centre`; they count from 0.
std::vector<double> filter_weights(double centre, double scale, int begin, int end, const Resampling& how) {
  const double stretch = how.antialias ? std::max(1.0, scale) : 1;
  std::vector<double> weights(static_cast<std::size_t>(end));
  double sum = 0;
  // As Pillow bounds them, which decides about samples on the edge.
  const double support = filter_support(how.interpolation) * stretch;
  const int low = static_cast<int>(std::floor(centre - support + 0.5));
  const int high = static_cast<int>(std::floor(centre + support + 0.5));
  for (int k = low; k < high; ++k) {
    const double weight = filter_weight((k - centre + 0.5) * (1 / stretch), how);
    if (how.antialias && (k < begin || k >= end)) continue;
    weights[static_cast<std::size_t>(std::clamp(k, begin, end - 1))] += weight;
    sum += weight;
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

// One channel of a picture without subsampling, filtered along rows, clamped, then along columns, and clamped.
std::vector<double> filtered(const Picture& picture, std::size_t p, const Crop& crop, int width, int height) {
  const PixelRect& limits = crop.limits;
  const auto side = [](double start, int low, int high, int resized, int skipped, double extent, int outputs, int i) {
    const double scale = resized > 0 ? static_cast<double>(high - low) / resized : extent / outputs;
    const double base = resized > 0 ? 0 : start - low;
    return std::pair(base + (skipped + i + 0.5) * scale, scale);
  };
  std::vector<double> levels(static_cast<std::size_t>(width * height));
  for (int x = 0; x < width; ++x) {
    const auto [centre, scale] =
        side(crop.region.x, limits.x, limits.right(), crop.resized.width, crop.resized.x, crop.region.width, width, x);
    const auto across = filter_weights(centre, scale, 0, limits.width, crop.resampling);
    std::vector<double> column(static_cast<std::size_t>(limits.height));
    for (int y = 0; y < limits.height; ++y) {
      double sum = 0;
      for (int k = 0; k < limits.width; ++k)
        sum += across[static_cast<std::size_t>(k)] * picture.sample(p, limits.x + k, limits.y + y);
      column[static_cast<std::size_t>(y)] = std::clamp(sum, 0.0, 255.0);
    }
    for (int y = 0; y < height; ++y) {
      const auto [middle, step] = side(crop.region.y, limits.y, limits.bottom(), crop.resized.height, crop.resized.y,
                                       crop.region.height, height, y);
      const auto down = filter_weights(middle, step, 0, limits.height, crop.resampling);
      double sum = 0;
      for (std::size_t k = 0; k < down.size(); ++k) sum += down[k] * column[k];
      levels[static_cast<std::size_t>(y * width + x)] = std::clamp(sum, 0.0, 255.0);
    }
  }
  return levels;
}

void compare_filtered(const Picture& picture, const Crop& crop, Target target, Random& random, Resizer& resizer) {
  const std::size_t plane = static_cast<std::size_t>(target.width) * static_cast<std::size_t>(target.height);
  std::vector<float> to(3 * plane);
  target.to = to.data();
  target.mean = {0, 0, 0};
  target.deviation = {1, 1, 1};
  resizer.prepare(crop, target);
  push(picture, needed_pixels(crop), static_cast<Order>(random.integer(0, 2)), random, resizer);
  ASSERT_TRUE(resizer.complete());
  for (std::size_t c = 0; c < 3; ++c) {
    const auto levels =
        filtered(picture, picture.layout.colour == Colour::kGrey ? 0 : c, crop, target.width, target.height);
    for (int y = 0; y < target.height; ++y)
      for (int x = 0; x < target.width; ++x) {
        const int column = target.flip ? target.width - 1 - x : x;
        const auto at = static_cast<std::size_t>(y * target.width + x);
        ASSERT_NEAR(255 * to[c * plane + at], levels[static_cast<std::size_t>(y * target.width + column)], 0.1)
            << c << " " << x << " " << y;
      }
  }
}

constexpr Resampling kFilters[] = {{Interpolation::kBilinear, true},
                                   {Interpolation::kBicubic, true},
                                   {Interpolation::kArea, true},
                                   {Interpolation::kBicubic, false}};

TEST(Resizer, FiltersAreAsDefined) {
  on_every_target([] {
    Random random(21);
    Resizer resizer;
    for (int round = 0; round < 120; ++round) {
      const int width = random.integer(1, 90);
      const int height = random.integer(1, 70);
      const Picture picture = make_picture(width, height, random.chance(0.3) ? Colour::kGrey : Colour::kRgb, random);
      const Resampling how = kFilters[round % 4];
      Target target;
      target.width = random.integer(1, random.chance(0.5) ? 20 : 60);
      target.height = random.integer(1, random.chance(0.5) ? 20 : 60);
      target.flip = random.chance(0.5);
      Crop crop = evaluation_crop(width, height, ImageSize(target.height, target.width), how);
      if (random.chance(0.6)) {
        const int w = random.integer(1, width);
        const int h = random.integer(1, height);
        crop = crop_then_resize(
            {1.0 * random.integer(0, width - w), 1.0 * random.integer(0, height - h), 1.0 * w, 1.0 * h}, how);
      }
      SCOPED_TRACE(::testing::Message() << "round " << round << ": " << width << " x " << height << " to "
                                        << target.width << " x " << target.height << ", "
                                        << interpolation_name(how.interpolation));
      compare_filtered(picture, crop, target, random, resizer);
      if (::testing::Test::HasFatalFailure()) return;
    }
  });
}

// Reductions by 1.1 to 40 use each way to find samples: many in one load, few in one, one by one.
TEST(Resizer, LargeReductionsByFiltersAreAsDefined) {
  on_every_target([] {
    Random random(22);
    Resizer resizer;
    for (const double factor : {1.1, 1.9, 2.0, 3.1, 4.5, 5.0, 7.0, 9.9, 12.0, 17.0, 40.0})
      for (const Resampling& how : kFilters) {
        SCOPED_TRACE(::testing::Message() << factor << " " << interpolation_name(how.interpolation));
        const int width = static_cast<int>(33 * factor);
        const Picture picture = make_picture(width, 60, Colour::kRgb, random);
        Target target;
        target.width = 33;
        target.height = 4;
        target.flip = random.chance(0.5);
        compare_filtered(picture, crop_then_resize({0, 0, 1.0 * width, 60}, how), target, random, resizer);
        if (::testing::Test::HasFatalFailure()) return;
      }
  });
}

TEST(Resizer, FiltersMakeTheSamePixelsOnEveryInstructionSet) {
  Random random(23);
  for (const Colour colour : {Colour::kRgb, Colour::kYcc})
    for (const Resampling& how : kFilters) {
      const Picture picture = make_picture(300, 140, colour, random);
      const Crop crop = evaluation_crop(300, 140, ImageSize(40, 50), how);
      std::vector<std::vector<float>> results;
      on_every_target([&] {
        results.emplace_back(3 * 50 * 40);
        Resizer resizer;
        resizer.prepare(crop, {.to = results.back().data(), .width = 50, .height = 40});
        push(picture, needed_pixels(crop), Order::kBlocks, random, resizer);
      });
      for (const auto& result : results) EXPECT_EQ(result, results.front());
    }
}

// A shrunk checkerboard is grey, whose mean is that of the image; without antialiasing it is not.
TEST(Resizer, AntialiasingKeepsTheMean) {
  Picture picture;
  picture.layout.width = picture.layout.height = 120;
  for (auto& plane : picture.planes)
    for (int i = 0; i < 120 * 120; ++i) plane.push_back((i % 120 + i / 120) % 2 == 0 ? 0 : 255);
  Random random(24);
  Resizer resizer;
  for (const Interpolation interpolation : {Interpolation::kBilinear, Interpolation::kBicubic, Interpolation::kArea}) {
    std::vector<std::uint8_t> to(3 * 30 * 30);
    const Crop crop = crop_then_resize({0, 0, 120, 120}, {interpolation, true});
    resizer.prepare(crop, {.to = to.data(), .dtype = DType::kUint8, .width = 30, .height = 30});
    push(picture, needed_pixels(crop), Order::kRows, random, resizer);
    for (const std::uint8_t level : to) EXPECT_NEAR(level, 127.5, 2) << interpolation_name(interpolation);
  }
}

TEST(Resizer, MissingRowsAreNoticed) {
  Random random(14);
  const Picture picture = make_picture(20, 20, Colour::kRgb, random);
  std::vector<float> to(3 * 10 * 10);
  Resizer resizer;
  resizer.prepare(crop_then_resize({0, 0, 20, 20}), {.to = to.data(), .width = 10, .height = 10});
  EXPECT_FALSE(resizer.complete());
  const std::vector<std::uint8_t> row(20 + kRowSlack);
  resizer.start(picture.layout, {PixelRect{0, 0, 20, 20}, {0, 0, 20, 20}, {0, 0, 20, 20}});
  for (int y = 0; y < 19; ++y)
    for (int p = 0; p < 3; ++p) resizer.row(p, y, row.data());
  EXPECT_FALSE(resizer.complete());
  for (int p = 0; p < 3; ++p) resizer.row(p, 19, row.data());
  EXPECT_TRUE(resizer.complete());
}

TEST(Resizer, SameSizeIsTheImageItself) {
  Image image;
  image.resize(37, 29);
  Random random(15);
  for (int y = 0; y < 29; ++y)
    for (int x = 0; x < 3 * 37; ++x) image.row(y)[x] = static_cast<std::uint8_t>(random.bits());
  std::vector<std::uint8_t> to(3 * 30 * 20);
  Resizer resizer;
  const Crop crop = crop_then_resize({4, 6, 30, 20});
  resizer.prepare(crop, {.to = to.data(), .dtype = DType::kUint8, .layout = Layout::kNhwc, .width = 30, .height = 20});
  push_image(image, needed_pixels(crop), resizer);
  ASSERT_TRUE(resizer.complete());
  for (int y = 0; y < 20; ++y) EXPECT_EQ(std::memcmp(to.data() + 90 * y, image.row(y + 6) + 12, 90), 0);
}

TEST(NeededPixels, AreThoseThatTapsReach) {
  EXPECT_EQ(needed_pixels(crop_then_resize({3, 4, 10, 20})), (PixelRect{3, 4, 10, 20}));
  EXPECT_EQ(needed_pixels(resize_then_crop({3, 4, 10, 20}, 100, 100)), (PixelRect{2, 3, 12, 22}));
  EXPECT_EQ(needed_pixels(resize_then_crop({0, 0, 100, 99.5}, 100, 100)), (PixelRect{0, 0, 100, 100}));
  EXPECT_EQ(needed_pixels(resize_then_crop({10.75, 0, 4.5, 1}, 100, 1)), (PixelRect{10, 0, 6, 1}));
  // A reduction by 4 reaches 4 pixels from the centres of the outputs.
  const Crop crop = evaluation_crop(1024, 1024, 224, {Interpolation::kBilinear, true});
  EXPECT_EQ(crop.resized, (PixelRect{16, 16, 256, 256}));
  EXPECT_EQ(needed_pixels(crop), (PixelRect{62, 62, 901, 901}));
}

}  // namespace
}  // namespace xoe::data

// e4m3 beside its definition: S.EEEE.MMM with bias 7, no infinity.
#include "core/engine/execute/compress/e4m3.h"

#include <cmath>
#include <limits>
#include <vector>

#include "core/tests/engine/ranks.h"

namespace xoe::engine {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

double meaning(int code) {
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  const double sign = (code & 0x80) != 0 ? -1 : 1;
  if (exponent == 15 && mantissa == 7) return kNan;
  if (exponent == 0) return sign * std::ldexp(mantissa, -9);
  return sign * std::ldexp(8 + mantissa, exponent - 10);
}

// The nearest finite code by looking at all of them; of two equally near ones the even one.
int nearest(double value) {
  int best = 0;
  for (int code = 1; code < 0x7F; ++code) {
    const double here = std::abs(meaning(code) - std::abs(value)), there = std::abs(meaning(best) - std::abs(value));
    if (here < there || (here == there && code % 2 == 0)) best = code;
  }
  return best | (std::signbit(value) ? 0x80 : 0);
}

TEST(E4m3, AllCodesMeanWhatTheFormatSays) {
  for (int code = 0; code < 256; ++code) {
    const float value = e4m3_decode(static_cast<std::uint8_t>(code));
    if ((code & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value)) << code;
      EXPECT_EQ(e4m3_encode(value), code);
      continue;
    }
    EXPECT_EQ(value, meaning(code)) << code;
    EXPECT_EQ(std::signbit(value), code >= 0x80) << code;
    EXPECT_EQ(e4m3_encode(value), code);
  }
  EXPECT_EQ(e4m3_decode(0x7E), 448.0F);
  EXPECT_EQ(e4m3_decode(0x01), 0x1p-9F);
}

TEST(E4m3, RoundsToNearestEven) {
  std::vector<float> values;
  for (int code = 0; code < 0x7E; ++code) {
    const auto middle = static_cast<float>((meaning(code) + meaning(code + 1)) / 2);
    for (const float x : {middle, std::nextafter(middle, 0.0F), std::nextafter(middle, 1e9F)}) values.push_back(x);
  }
  Random random(1);
  for (int i = 0; i < 3000; ++i) values.push_back(static_cast<float>(std::exp2(12 * random.uniform()) * 3));
  for (const float x : {0.0F, 1e-20F, std::numeric_limits<float>::denorm_min(), 449.0F, 464.0F, 480.0F, 1e30F})
    values.push_back(x);
  for (const float x : values) {
    EXPECT_EQ(e4m3_encode(x), nearest(x)) << x;
    EXPECT_EQ(e4m3_encode(-x), nearest(-x)) << -x;
  }
}

TEST(E4m3, KeepsWhatIsNotFinite) {
  for (const float x : {kInf, -kInf, kNan, -kNan}) {
    EXPECT_TRUE(std::isnan(e4m3_decode(e4m3_encode(x)))) << x;
    EXPECT_EQ(std::signbit(e4m3_decode(e4m3_encode(x))), std::signbit(x));
  }
}

std::vector<float> there_and_back(const std::vector<float>& values) {
  std::vector<std::byte> bytes(e4m3_bytes(values.size()));
  std::vector<float> back(values.size());
  e4m3_encode_run(values, bytes.data());
  e4m3_decode_run(bytes.data(), back);
  return back;
}

float largest_of(std::span<const float> values) {
  float largest = 0;
  for (const float x : values) largest = std::max(largest, std::isfinite(x) ? std::abs(x) : 0.0F);
  return largest;
}

TEST(E4m3Run, KeepsItsErrorBound) {
  for (const std::size_t count : {1, 2, 255, 256, 257, 1000, 5000}) {
    for (const double magnitude : {1e-44, 1e-38, 1e-30, 1e-3, 1.0, 448.0, 1e20, 1e37}) {
      const auto values = random_values(count, count, magnitude), back = there_and_back(values);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t begin = i / kE4m3Block * kE4m3Block;
        const auto block = std::span(values).subspan(begin, std::min(kE4m3Block, count - begin));
        const double floor = std::max(std::ldexp(double{largest_of(block)}, -17), 0x1p-136);
        ASSERT_LE(std::abs(back[i] - values[i]), std::max<double>(std::abs(values[i]) / 16, floor)) << values[i];
      }
    }
  }
  EXPECT_EQ(e4m3_bytes(1000), 1016U);
  EXPECT_EQ(e4m3_bytes(0), 0U);
}

// Rounded in the block's own way: a power of two brings the largest to (224, 448].
TEST(E4m3Run, MatchesSingleValues) {
  const auto values = random_values(700, 3, 0.01), back = there_and_back(values);
  for (std::size_t begin = 0; begin < values.size(); begin += kE4m3Block) {
    const auto block = std::span(values).subspan(begin, std::min(kE4m3Block, values.size() - begin));
    double scale = 1;
    while (largest_of(block) / scale <= 224) scale /= 2;
    for (std::size_t i = 0; i < block.size(); ++i)
      ASSERT_EQ(back[begin + i], static_cast<float>(meaning(nearest(block[i] / scale)) * scale));
  }
}

TEST(E4m3Run, ExtremesStayInTheirBlock) {
  std::vector<float> values = random_values(3 * kE4m3Block, 4);
  const float largest = std::numeric_limits<float>::max();
  values[5] = kNan;
  values[6] = kInf;
  values[kE4m3Block] = largest;
  values[2 * kE4m3Block] = 0.0F;
  const auto back = there_and_back(values);
  EXPECT_TRUE(std::isnan(back[5]) && std::isnan(back[6]));
  EXPECT_TRUE(std::isfinite(back[kE4m3Block]));
  EXPECT_GT(back[kE4m3Block], largest * 0.8F);
  for (const std::size_t i : {std::size_t{0}, std::size_t{7}, 2 * kE4m3Block + 1})
    EXPECT_NEAR(back[i], values[i], std::abs(values[i]) / 16 + 1e-4);
  EXPECT_EQ(there_and_back(std::vector<float>(300, 0.0F)), std::vector<float>(300, 0.0F));
}

TEST(E4m3Run, AddsAndKeepsWhatItDropped) {
  auto values = random_values(777, 5);
  const auto given = values;
  std::vector<float> residual(values.size(), 0.25F);
  std::vector<std::byte> bytes(e4m3_bytes(values.size()));
  e4m3_encode_run(values, residual, bytes.data());
  std::vector<float> sent(values.size()), twice(values.size(), 1.0F);
  e4m3_decode_run(bytes.data(), sent);
  e4m3_add_run(bytes.data(), twice);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], given[i] + 0.25F);
    ASSERT_EQ(residual[i], values[i] - sent[i]);
    ASSERT_EQ(twice[i], 1.0F + sent[i]);
  }
}

}  // namespace
}  // namespace xoe::engine

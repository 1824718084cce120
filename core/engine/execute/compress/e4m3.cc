#include "core/engine/execute/compress/e4m3.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "core/engine/execute/compress/feedback.h"

namespace xoe::engine {
namespace {

constexpr std::int32_t kMagnitude = 0x7FFFFFFF;
constexpr std::int32_t kInfinity = 0x7F800000;

// Signed integers, and masks in place of branches, which compilers would not take apart around a float addition: every
// instruction set has vectors for it.
inline std::uint8_t encode(float value) noexcept {
  const auto bits = std::bit_cast<std::int32_t>(value);
  const std::int32_t all = bits & kMagnitude;
  constexpr auto kLargest = std::bit_cast<std::int32_t>(448.0F);
  const std::int32_t magnitude = all < kLargest ? all : kLargest;
  // Drops 20 of 23 mantissa bits, then changes the exponent's bias from 127 to 7.
  const std::int32_t normal = ((magnitude + 0x7FFFF + ((magnitude >> 20) & 1)) >> 20) - (120 << 3);
  // 2^14 has its last bit at 2^-9, the subnormals' step: the addition rounds.
  constexpr auto kGrid = std::bit_cast<std::int32_t>(0x1p14F);
  const std::int32_t subnormal = std::bit_cast<std::int32_t>(std::bit_cast<float>(magnitude) + 0x1p14F) - kGrid;
  const std::int32_t small = (magnitude - std::bit_cast<std::int32_t>(0x1p-6F)) >> 31;
  const std::int32_t special = (kInfinity - 1 - all) >> 31;
  const std::int32_t code = normal ^ ((normal ^ subnormal) & small);
  return static_cast<std::uint8_t>(((code | special) & 0x7F) | ((bits >> 24) & 0x80));
}

constexpr std::array<float, 256> make_table() {
  std::array<float, 256> table = {};
  for (std::uint32_t code = 0; code < 256; ++code) {
    const std::uint32_t exponent = (code >> 3) & 15, mantissa = code & 7;
    const std::uint32_t sign = (code & 0x80) << 24;
    std::uint32_t bits = (exponent + 120) << 23 | mantissa << 20;
    if (exponent == 0) bits = std::bit_cast<std::uint32_t>(static_cast<float>(mantissa) * 0x1p-9F);
    if ((code & 0x7F) == 0x7F) bits = 0x7FC00000;
    table[code] = std::bit_cast<float>(bits | sign);
  }
  return table;
}

constexpr auto kTable = make_table();

// The biased exponent of a block's scale.
std::int32_t scale_exponent(const float* values, std::size_t count) noexcept {
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i)
    largest = std::max(largest, std::bit_cast<std::int32_t>(values[i]) & kMagnitude);
  if (largest >= kInfinity) [[unlikely]] {
    largest = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t magnitude = std::bit_cast<std::int32_t>(values[i]) & kMagnitude;
      if (magnitude < kInfinity) largest = std::max(largest, magnitude);
    }
  }
  // 448 = 1.75 * 2^8
  const std::int32_t above = (largest & 0x007FFFFF) > 0x00600000 ? 1 : 0;
  // 2^119 and not more: 448 of it is still finite.
  return std::clamp((largest >> 23) - 8 + above, 1, 119 + 127);
}

// `count` is a constant for whole blocks, which lets the compiler use vectors.
inline void encode_block(const float* __restrict values, std::size_t count, std::byte* __restrict out) noexcept {
  const std::int32_t exponent = scale_exponent(values, count);
  const std::int32_t scale = exponent << 23;
  std::memcpy(out, &scale, sizeof scale);
  const auto inverse = std::bit_cast<float>((254 - exponent) << 23);
  auto* codes = reinterpret_cast<std::uint8_t*>(out + sizeof scale);
  for (std::size_t i = 0; i < count; ++i) codes[i] = encode(values[i] * inverse);
}

template <bool kAdd>
inline void decode_block(const std::byte* __restrict in, std::size_t count, float* __restrict values) noexcept {
  float scale = 0;
  std::memcpy(&scale, in, sizeof scale);
  const auto* codes = reinterpret_cast<const std::uint8_t*>(in + sizeof scale);
  for (std::size_t i = 0; i < count; ++i) {
    const float value = kTable[codes[i]] * scale;
    values[i] = kAdd ? values[i] + value : value;
  }
}

// body(offset of the values, their number, offset of the bytes) for each block.
template <class Body>
inline void for_each_block(std::size_t count, const Body& body) noexcept {
  std::size_t i = 0, byte = 0;
  for (; i + kE4m3Block <= count; i += kE4m3Block, byte += kE4m3Block + sizeof(float)) body(i, kE4m3Block, byte);
  if (i < count) body(i, count - i, byte);
}

void encode_any(const float* values, std::size_t count, std::byte* out) noexcept {
  if (count == kE4m3Block)
    encode_block(values, kE4m3Block, out);
  else
    encode_block(values, count, out);
}

}  // namespace

std::uint8_t e4m3_encode(float value) noexcept { return encode(value); }

float e4m3_decode(std::uint8_t code) noexcept { return kTable[code]; }

void e4m3_encode_run(std::span<const float> values, std::byte* out) noexcept {
  for_each_block(values.size(), [&](std::size_t i, std::size_t count, std::size_t byte) {
    encode_any(&values[i], count, out + byte);
  });
}

void e4m3_decode_run(const std::byte* in, std::span<float> values) noexcept {
  for_each_block(values.size(), [&](std::size_t i, std::size_t count, std::size_t byte) {
    decode_block<false>(in + byte, count, &values[i]);
  });
}

void e4m3_add_run(const std::byte* in, std::span<float> values) noexcept {
  for_each_block(values.size(), [&](std::size_t i, std::size_t count, std::size_t byte) {
    decode_block<true>(in + byte, count, &values[i]);
  });
}

void e4m3_encode_run(std::span<float> values, std::span<float> residual, std::byte* out) noexcept {
  // Block by block, so that all four steps find it in the cache.
  for_each_block(values.size(), [&](std::size_t i, std::size_t count, std::size_t byte) {
    const auto block = values.subspan(i, count), rest = residual.subspan(i, count);
    add_residual(block, rest);
    encode_any(block.data(), count, out + byte);
    decode_block<false>(out + byte, count, rest.data());
    keep_rest(block, rest);
  });
}

}  // namespace xoe::engine

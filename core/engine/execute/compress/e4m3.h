// The 8-bit float e4m3 and blocks of it. Micikevicius et al., "FP8 Formats for Deep Learning", 2022: 1 sign, 4 exponent
// (bias 7) and 3 mantissa bits, no infinity, S.1111.111 is NaN, the largest is 448, the smallest 2^-9.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace xoe::engine {

// Rounds to nearest even. Larger finite values become 448; infinities and NaN become NaN, so that an overflow in the
// gradients stays visible.
std::uint8_t e4m3_encode(float value) noexcept;
float e4m3_decode(std::uint8_t code) noexcept;

// A run of values is cut into blocks. Each is stored as its scale, a float32 power of two, and one code for each
// value; value = code * scale. The scale is the smallest that brings the block's largest finite magnitude to 448 or
// below, between 2^-126 and 2^119: multiplying is exact, so the error of x is at most max(|x| / 16, scale / 1024).
inline constexpr std::size_t kE4m3Block = 256;

constexpr std::size_t e4m3_blocks(std::size_t count) noexcept { return (count + kE4m3Block - 1) / kE4m3Block; }
constexpr std::size_t e4m3_bytes(std::size_t count) noexcept { return count + e4m3_blocks(count) * sizeof(float); }

// `out` receives e4m3_bytes(values.size()) bytes.
void e4m3_encode_run(std::span<const float> values, std::byte* out) noexcept;
// values[i] = decoded value.
void e4m3_decode_run(const std::byte* in, std::span<float> values) noexcept;
// values[i] += decoded value.
void e4m3_add_run(const std::byte* in, std::span<float> values) noexcept;
// Encodes values[i] += residual[i]; residual[i] becomes the rounding error.
void e4m3_encode_run(std::span<float> values, std::span<float> residual, std::byte* out) noexcept;

}  // namespace xoe::engine

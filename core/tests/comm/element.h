// Elements of any type as numbers.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/base/float16.h"
#include "xoe/tensor.h"

namespace xoe::testing {

inline std::uint16_t float_bits_high(float value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}

inline void store(std::byte* at, DType dtype, double value) {
  const auto put = [&](auto typed) { std::memcpy(at, &typed, sizeof typed); };
  const auto whole = static_cast<std::int64_t>(value);
  switch (dtype) {
    case DType::kUint8:
    case DType::kBool: return put(static_cast<std::uint8_t>(whole));
    case DType::kInt8: return put(static_cast<std::int8_t>(whole));
    case DType::kInt16: return put(static_cast<std::int16_t>(whole));
    case DType::kInt32: return put(static_cast<std::int32_t>(whole));
    case DType::kInt64: return put(whole);
    case DType::kFloat16: return put(static_cast<Float16>(value));
    case DType::kBfloat16: return put(float_bits_high(static_cast<float>(value)));
    case DType::kFloat32: return put(static_cast<float>(value));
    case DType::kFloat64: return put(value);
  }
}

inline double load(const std::byte* at, DType dtype) {
  const auto get = [&](auto typed) {
    std::memcpy(&typed, at, sizeof typed);
    return static_cast<double>(typed);
  };
  switch (dtype) {
    case DType::kUint8:
    case DType::kBool: return get(std::uint8_t{});
    case DType::kInt8: return get(std::int8_t{});
    case DType::kInt16: return get(std::int16_t{});
    case DType::kInt32: return get(std::int32_t{});
    case DType::kInt64: return get(std::int64_t{});
    case DType::kFloat16: return get(Float16{});
    case DType::kBfloat16: {
      std::uint16_t bits = 0;
      std::memcpy(&bits, at, sizeof bits);
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
    }
    case DType::kFloat32: return get(float{});
    case DType::kFloat64: return get(double{});
  }
  return 0;
}

inline bool is_float(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBfloat16 || dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

}  // namespace xoe::testing

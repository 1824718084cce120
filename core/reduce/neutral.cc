#include "core/reduce/neutral.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/reduce/reduce.h"

namespace xoe::reduce {

namespace {

// Converts a neutral element; an integer type has its limits in the place of infinities.
template <class T>
T as(double neutral) noexcept {
  using Limits = std::numeric_limits<T>;
  if (Limits::has_infinity || std::isfinite(neutral)) return static_cast<T>(neutral);
  return neutral > 0 ? Limits::max() : Limits::lowest();
}

std::uint16_t as_half(double neutral, DType dtype) noexcept {
  const auto wide = static_cast<float>(neutral);
  std::uint16_t half = 0;
  cast(&wide, DType::kFloat32, &half, dtype, 1);
  return half;
}

}  // namespace

void fill_neutral(void* data, std::size_t count, DType dtype, ReduceOp op) noexcept {
  const auto fill = [&](auto value) { std::fill_n(static_cast<decltype(value)*>(data), count, value); };
  const double neutral = traits_of(op).neutral;
  switch (dtype) {
    case DType::kBool: return fill(static_cast<std::uint8_t>(traits_of(op).of_bools == ReduceOp::kMin));
    case DType::kUint8: return fill(as<std::uint8_t>(neutral));
    case DType::kInt8: return fill(as<std::int8_t>(neutral));
    case DType::kInt16: return fill(as<std::int16_t>(neutral));
    case DType::kInt32: return fill(as<std::int32_t>(neutral));
    case DType::kInt64: return fill(as<std::int64_t>(neutral));
    case DType::kFloat16:
    case DType::kBfloat16: return fill(as_half(neutral, dtype));
    case DType::kFloat32: return fill(as<float>(neutral));
    case DType::kFloat64: return fill(as<double>(neutral));
  }
}

}  // namespace xoe::reduce

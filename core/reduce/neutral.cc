#include "core/reduce/neutral.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

namespace xoe::reduce {

static_assert(kReduceOpCount == 5, "a new reduction needs its neutral element below");

void fill_neutral(void* data, std::size_t count, DType dtype, ReduceOp op) noexcept {
  std::memset(data, 0, count * dtype_size(dtype));
  if (count == 0 || op == ReduceOp::kSum || op == ReduceOp::kAverage) return;
  const auto fill = [&](auto value) { std::fill_n(static_cast<decltype(value)*>(data), count, value); };
  const auto limits = [&]<class T>(T) {
    if (op == ReduceOp::kProduct) return fill(T{1});
    fill(op == ReduceOp::kMin ? std::numeric_limits<T>::max() : std::numeric_limits<T>::lowest());
  };
  const auto halves = [&](std::uint16_t one, std::uint16_t infinity) {
    if (op == ReduceOp::kProduct) return fill(one);
    fill(static_cast<std::uint16_t>(op == ReduceOp::kMin ? infinity : infinity | 0x8000));
  };
  const auto floats = [&]<class T>(T) {
    if (op == ReduceOp::kProduct) return fill(T{1});
    fill(op == ReduceOp::kMin ? std::numeric_limits<T>::infinity() : -std::numeric_limits<T>::infinity());
  };
  switch (dtype) {
    case DType::kBool: return fill(static_cast<std::uint8_t>(op != ReduceOp::kMax));
    case DType::kUint8: return limits(std::uint8_t{});
    case DType::kInt8: return limits(std::int8_t{});
    case DType::kInt16: return limits(std::int16_t{});
    case DType::kInt32: return limits(std::int32_t{});
    case DType::kInt64: return limits(std::int64_t{});
    case DType::kFloat16: return halves(0x3c00, 0x7c00);
    case DType::kBfloat16: return halves(0x3f80, 0x7f80);
    case DType::kFloat32: return floats(float{});
    case DType::kFloat64: return floats(double{});
  }
}

}  // namespace xoe::reduce

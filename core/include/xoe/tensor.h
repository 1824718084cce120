// The types of elements, and tensors as views of contiguous memory, which collectives read and write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "xoe/reduce_op.h"

namespace xoe {

enum class DType : std::uint8_t {
  kUint8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,   // IEEE binary16; reductions accumulate in float32
  kBfloat16,  // upper half of binary32; reductions accumulate in float32
  kFloat32,
  kFloat64,
  kBool,  // one byte, 0 or 1; sum and max are "or", product and min are "and"
};
inline constexpr int kDTypeCount = 10;

// Bytes of one element.
constexpr std::size_t dtype_size(DType dtype) noexcept {
  switch (dtype) {
    case DType::kUint8:
    case DType::kInt8:
    case DType::kBool: return 1;
    case DType::kInt16:
    case DType::kFloat16:
    case DType::kBfloat16: return 2;
    case DType::kInt32:
    case DType::kFloat32: return 4;
    case DType::kInt64:
    case DType::kFloat64: return 8;
  }
  return 0;
}

std::string_view dtype_name(DType dtype) noexcept;  // "float32"

// The DType of a C++ type: dtype_of<float>() == DType::kFloat32.
template <class T>
constexpr DType dtype_of() noexcept = delete;
template <>
constexpr DType dtype_of<std::uint8_t>() noexcept {
  return DType::kUint8;
}
template <>
constexpr DType dtype_of<std::int8_t>() noexcept {
  return DType::kInt8;
}
template <>
constexpr DType dtype_of<std::int16_t>() noexcept {
  return DType::kInt16;
}
template <>
constexpr DType dtype_of<std::int32_t>() noexcept {
  return DType::kInt32;
}
template <>
constexpr DType dtype_of<std::int64_t>() noexcept {
  return DType::kInt64;
}
template <>
constexpr DType dtype_of<float>() noexcept {
  return DType::kFloat32;
}
template <>
constexpr DType dtype_of<double>() noexcept {
  return DType::kFloat64;
}
template <>
constexpr DType dtype_of<bool>() noexcept {
  return DType::kBool;
}

// A view of `count` contiguous elements to read. Owns nothing.
struct ConstTensor {
  const void* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::kFloat32;

  constexpr ConstTensor() = default;
  constexpr ConstTensor(const void* d, std::size_t n, DType t) : data(d), count(n), dtype(t) {}
  template <class T>
  constexpr ConstTensor(const T* d, std::size_t n) : data(d), count(n), dtype(dtype_of<T>()) {}

  constexpr std::size_t bytes() const noexcept { return count * dtype_size(dtype); }
};

// A view of `count` contiguous elements to read and write. Owns nothing.
struct Tensor {
  void* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::kFloat32;

  constexpr Tensor() = default;
  constexpr Tensor(void* d, std::size_t n, DType t) : data(d), count(n), dtype(t) {}
  template <class T>
  constexpr Tensor(T* d, std::size_t n) : data(d), count(n), dtype(dtype_of<T>()) {}

  constexpr operator ConstTensor() const noexcept { return {data, count, dtype}; }
  constexpr std::size_t bytes() const noexcept { return count * dtype_size(dtype); }
};

}  // namespace xoe

#include "measure/cli/collectives/check_values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/base/float16.h"

namespace xoe::bench {
namespace {

constexpr std::size_t kPeriod = 7;  // of the values; prime, so that data in the wrong place differ
constexpr int kMostTwos = 6;        // ranks that multiply by 2: 64 is exact in int8

// The upper half of a float.
struct Bfloat16 {
  std::uint16_t bits = 0;
  Bfloat16() = default;
  explicit Bfloat16(double value)
      : bits(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16)) {}
  explicit operator double() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

// Calls work with a value of the C++ type.
template <class Work>
auto with_type(DType dtype, Work work) {
  switch (dtype) {
    case DType::kInt8: return work(std::int8_t{});
    case DType::kInt16: return work(std::int16_t{});
    case DType::kInt32: return work(std::int32_t{});
    case DType::kInt64: return work(std::int64_t{});
    case DType::kFloat16: return work(Float16{});
    case DType::kBfloat16: return work(Bfloat16{});
    case DType::kFloat32: return work(float{});
    case DType::kFloat64: return work(double{});
    case DType::kUint8:
    case DType::kBool: break;
  }
  return work(std::uint8_t{});
}

// Integers wrap.
template <class T>
T typed(double value) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<std::int64_t>(value));
  return static_cast<T>(value);
}

template <class T>
bool matches(T got, double expected) {
  if constexpr (std::is_integral_v<T>) return got == typed<T>(expected);
  // Of two neighbours of the exact value, either.
  const double unit = std::is_same_v<T, Bfloat16> ? 0x1p-7 : std::is_same_v<T, Float16> ? 0x1p-10 : 0x1p-22;
  return std::abs(static_cast<double>(got) - expected) <= std::abs(expected) * unit;
}

double input_value(const CollectiveCase& one, int rank, std::size_t element) {
  const std::size_t value = (static_cast<std::size_t>(rank) * 3 + element) % kPeriod;
  if (one.op != ReduceOp::kProduct || !reduces(one.kind)) return static_cast<double>(value);
  return rank < kMostTwos && value % 2 == 1 ? 2 : 1;
}

double reduced_value(const CollectiveCase& one, std::size_t element) {
  double value = input_value(one, 0, element);
  for (int rank = 1; rank < one.ranks; ++rank) {
    value = traits_of(one.op).combine(value, input_value(one, rank, element));
  }
  return one.op == ReduceOp::kAverage ? value / one.ranks : value;
}

// The expected values of `count` elements from `first` of the input of `rank`, or of all ranks reduced: they repeat.
template <class T>
std::size_t wrong_in(const T* output, const CollectiveCase& one, int rank, std::size_t first, std::size_t count) {
  std::array<double, kPeriod> expected;
  for (std::size_t i = 0; i < kPeriod; ++i)
    expected[(first + i) % kPeriod] =
        reduces(one.kind) ? reduced_value(one, first + i) : input_value(one, rank, first + i);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) wrong += matches(output[i], expected[(first + i) % kPeriod]) ? 0 : 1;
  return wrong;
}

template <class T>
std::size_t wrong_of(const T* output, const CollectiveCase& one, int rank) {
  const std::size_t own = one.block * static_cast<std::size_t>(rank);
  switch (one.kind) {
    case CollectiveKind::kAllReduce: return wrong_in(output, one, rank, 0, one.block);
    case CollectiveKind::kBroadcast: return wrong_in(output, one, one.root, 0, one.block);
    case CollectiveKind::kReduceScatter: return wrong_in(output, one, rank, own, one.block);
    case CollectiveKind::kAllGather:
    case CollectiveKind::kAllToAll: break;
  }
  std::size_t wrong = 0;
  const std::size_t first = one.kind == CollectiveKind::kAllToAll ? own : 0;
  for (int from = 0; from < one.ranks; ++from)
    wrong += wrong_in(output + one.block * static_cast<std::size_t>(from), one, from, first, one.block);
  return wrong;
}

}  // namespace

void fill_input(std::span<std::byte> buffer, const CollectiveCase& one, int rank) {
  with_type(one.dtype, [&]<class T>(T) {
    std::array<T, kPeriod> values;
    for (std::size_t i = 0; i < kPeriod; ++i) values[i] = typed<T>(input_value(one, rank, i));
    T* const elements = reinterpret_cast<T*>(buffer.data());
    for (std::size_t i = 0; i < buffer.size() / sizeof(T); ++i) elements[i] = values[i % kPeriod];
    return 0;
  });
}

void fill_garbage(std::span<std::byte> buffer, DType dtype) {
  with_type(dtype, [&]<class T>(T) {
    T* const elements = reinterpret_cast<T*>(buffer.data());
    std::fill_n(elements, buffer.size() / sizeof(T), typed<T>(-77));
    return 0;
  });
}

std::size_t count_wrong(std::span<const std::byte> output, const CollectiveCase& one, int rank) {
  return with_type(one.dtype,
                   [&]<class T>(T) { return wrong_of(reinterpret_cast<const T*>(output.data()), one, rank); });
}

}  // namespace xoe::bench

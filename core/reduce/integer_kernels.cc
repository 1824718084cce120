// Integers and bool: plain loops that the compiler vectorises for each instruction set, over blocks in the L1 cache.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/reduce/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/reduce/integer_kernels.cc"
#include "hwy/foreach_target.h"  // before highway.h: compiles this file once per instruction set
#include "hwy/highway.h"

#include "core/reduce/operators-inl.h"  // a block of its own, so that sorting leaves it behind foreach_target.h

HWY_BEFORE_NAMESPACE();
namespace xoe::reduce::HWY_NAMESPACE {

inline constexpr std::size_t kBlockBytes = 4096;

// Elements need not be aligned.
template <class T>
HWY_INLINE T load(const void* data, std::size_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
HWY_INLINE void store(void* data, std::size_t i, T value) {
  std::memcpy(static_cast<char*>(data) + i * sizeof(T), &value, sizeof(T));
}

struct AnyTrue {
  template <class T>
  static HWY_INLINE T of_integers(T a, T b) {
    return static_cast<T>((a | b) != 0);
  }
};

struct AllTrue {
  template <class T>
  static HWY_INLINE T of_integers(T a, T b) {
    return static_cast<T>((a != 0) & (b != 0));
  }
};

// out may be a or b: GCC's ivdep only states that iterations are independent.
template <class T, class Op>
void combine_two(const void* a, const void* b, void* out, std::size_t n) {
#if !defined(__clang__)
#pragma GCC ivdep
#endif
  for (std::size_t i = 0; i < n; ++i) store<T>(out, i, Op::template of_integers<T>(load<T>(a, i), load<T>(b, i)));
}

const void* element(const void* data, std::size_t i, std::size_t size) {
  return static_cast<const char*>(data) + i * size;
}

void* element(void* data, std::size_t i, std::size_t size) { return static_cast<char*>(data) + i * size; }

template <class T, class Op>
void fold(Outs outs, Ins ins, std::size_t count) {
  constexpr std::size_t kBlock = kBlockBytes / sizeof(T);
  alignas(64) T acc[kBlock];
  for (std::size_t at = 0; at < count; at += kBlock) {
    const std::size_t n = std::min(kBlock, count - at);
    const void* first = element(ins[0], at, sizeof(T));
    // Up to two inputs need no accumulator: the first output is one.
    void* const result = ins.size() <= 2 ? element(outs[0], at, sizeof(T)) : acc;
    if (ins.size() > 1) {
      combine_two<T, Op>(first, element(ins[1], at, sizeof(T)), result, n);
    } else if (std::is_same_v<Op, AnyTrue> || std::is_same_v<Op, AllTrue>) {
      combine_two<T, Op>(first, first, result, n);  // (x, x) is x, as 0 or 1
    } else {
      std::memmove(result, first, n * sizeof(T));
    }
    for (std::size_t k = 2; k < ins.size(); ++k) combine_two<T, Op>(acc, element(ins[k], at, sizeof(T)), acc, n);
    for (void* out : outs) std::memmove(element(out, at, sizeof(T)), result, n * sizeof(T));
  }
}

__extension__ using Int128 = __int128;

// Sums do not overflow: up to 2^32 values of at most 32 bits in 64 bits, and those of 64 bits in 128. The division
// truncates toward zero.
template <class T>
void average(Outs outs, Ins ins, std::size_t count) {
  using Sum = std::conditional_t<sizeof(T) == 8, Int128, std::int64_t>;
  constexpr std::size_t kBlock = kBlockBytes / sizeof(Sum);
  alignas(64) Sum sum[kBlock];
  alignas(64) T result[kBlock];
  const auto divisor = static_cast<Sum>(ins.size());
  for (std::size_t at = 0; at < count; at += kBlock) {
    const std::size_t n = std::min(kBlock, count - at);
    std::fill_n(sum, n, Sum{0});
    for (const void* in : ins) {
      const void* from = element(in, at, sizeof(T));
      for (std::size_t i = 0; i < n; ++i) sum[i] += Sum{load<T>(from, i)};
    }
    for (std::size_t i = 0; i < n; ++i) result[i] = static_cast<T>(sum[i] / divisor);
    for (void* out : outs) std::memcpy(element(out, at, sizeof(T)), result, n * sizeof(T));
  }
}

template <class T>
void integer(Outs outs, Ins ins, std::size_t count, ReduceOp op) {
  if (op == ReduceOp::kAverage) return average<T>(outs, ins, count);
  with_operator(op, [&]<class Op>(Op) { fold<T, Op>(outs, ins, count); });
}

void boolean(Outs outs, Ins ins, std::size_t count, ReduceOp op) {
  if (traits_of(op).of_bools == ReduceOp::kMax) return fold<std::uint8_t, AnyTrue>(outs, ins, count);
  fold<std::uint8_t, AllTrue>(outs, ins, count);
}

void integers(Outs outs, Ins ins, std::size_t count, DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::kUint8: return integer<std::uint8_t>(outs, ins, count, op);
    case DType::kInt8: return integer<std::int8_t>(outs, ins, count, op);
    case DType::kInt16: return integer<std::int16_t>(outs, ins, count, op);
    case DType::kInt32: return integer<std::int32_t>(outs, ins, count, op);
    case DType::kInt64: return integer<std::int64_t>(outs, ins, count, op);
    default: return boolean(outs, ins, count, op);
  }
}

}  // namespace xoe::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace xoe::reduce {

HWY_EXPORT(integers);

void reduce_integers(Outs outs, Ins ins, std::size_t count, DType dtype, ReduceOp op) noexcept {
  HWY_DYNAMIC_DISPATCH(integers)(outs, ins, count, dtype, op);
}

}  // namespace xoe::reduce
#endif

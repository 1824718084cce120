// The operators of the reductions: of_integers() combines two integers, combine() two vectors of floats. foreach_target
// includes this file once for each instruction set.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "xoe/reduce_op.h"

#if defined(XOE_REDUCE_OPERATORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef XOE_REDUCE_OPERATORS_INL_H_
#undef XOE_REDUCE_OPERATORS_INL_H_
#else
#define XOE_REDUCE_OPERATORS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace xoe::reduce::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Wraps modulo 2^64, which implies every narrower wrap; unsigned, since signed overflow is undefined.
template <class T>
using Wrapping = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

struct SumOp {
  using Base = SumOp;  // combines alike; passes that do not finish use it, so that there is one of each
  static constexpr bool kArithmetic = true;
  static constexpr bool kAverages = false;
  static constexpr std::size_t kDirectIns = 4;  // how many inputs have a pass of their own
  template <class D, class V>
  static HWY_INLINE V combine(D, V a, V b) {
    return hn::Add(a, b);
  }
  template <class D, class V, class T>
  static HWY_INLINE V finish(D, V a, T) {
    return a;
  }
  template <class T>
  static HWY_INLINE T of_integers(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};

// sum / n, correctly rounded.
struct AverageOp : SumOp {
  static constexpr bool kAverages = true;
  static constexpr bool kDivides = true;
  static constexpr std::size_t kDirectIns = 1;  // used for 3, 5, 6, ...
  template <class D, class V, class T>
  static HWY_INLINE V finish(D d, V a, T divisor) {
    return hn::Div(a, hn::Set(d, divisor));
  }
};

// The same bits as AverageOp, faster, where n is a power of two: its reciprocal is exact.
struct AverageByReciprocalOp : SumOp {
  static constexpr bool kAverages = true;
  static constexpr bool kDivides = false;
  static constexpr std::size_t kDirectIns = 2;
  template <class D, class V, class T>
  static HWY_INLINE V finish(D d, V a, T reciprocal) {
    return hn::Mul(a, hn::Set(d, reciprocal));
  }
};

// Minimum and maximum of IEEE 754-2019: the first NaN wins, and -0 is less than +0, in whatever order they come. Of
// equal values the bits are combined, which differ for zeros only. Spelled out with comparisons because the
// instructions of different processors disagree on both.
struct MinOp : SumOp {
  using Base = MinOp;
  static constexpr bool kArithmetic = false;
  static constexpr std::size_t kDirectIns = 2;
  template <class D, class V>
  static HWY_INLINE V combine(D, V a, V b) {
    const V not_less = hn::IfThenElse(hn::Eq(a, b), hn::Or(a, b), b);
    return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, not_less);
  }
  template <class T>
  static HWY_INLINE T of_integers(T a, T b) {
    return a < b ? a : b;
  }
};

struct MaxOp : SumOp {
  using Base = MaxOp;
  static constexpr bool kArithmetic = false;
  static constexpr std::size_t kDirectIns = 2;
  template <class D, class V>
  static HWY_INLINE V combine(D, V a, V b) {
    const V not_greater = hn::IfThenElse(hn::Eq(a, b), hn::And(a, b), b);
    return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, not_greater);
  }
  template <class T>
  static HWY_INLINE T of_integers(T a, T b) {
    return a > b ? a : b;
  }
};

struct ProductOp : SumOp {
  using Base = ProductOp;
  static constexpr std::size_t kDirectIns = 2;
  template <class D, class V>
  static HWY_INLINE V combine(D, V a, V b) {
    return hn::Mul(a, b);
  }
  template <class T>
  static HWY_INLINE T of_integers(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};

// Calls f with the operator of a reduction; an average adds like a sum, and divides at the end.
template <class F>
HWY_INLINE void with_operator(ReduceOp op, const F& f) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage: return f(SumOp());
    case ReduceOp::kMin: return f(MinOp());
    case ReduceOp::kMax: return f(MaxOp());
    case ReduceOp::kProduct: return f(ProductOp());
  }
}

}  // namespace xoe::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard

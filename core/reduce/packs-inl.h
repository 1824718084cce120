// Conversion of elements to vectors of their accumulator type and back: one struct per element type and width, each
// with
//   Elem, Acc       the type in memory, and the type of the arithmetic
//   Pack            the accumulators of lanes() consecutive elements
//   load, store     between elements and a Pack;  load_acc, store_acc: between accumulators in memory and a Pack
//   combine, finish apply an operation lane by lane
//   any_infinite    whether a lane is infinite
// Included once per instruction set by foreach_target.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "core/reduce/half_bits-inl.h"
#include "hwy/highway.h"

#if defined(XOE_REDUCE_PACKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef XOE_REDUCE_PACKS_INL_H_
#undef XOE_REDUCE_PACKS_INL_H_
#else
#define XOE_REDUCE_PACKS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace xoe::reduce::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Elements may be unaligned. Highway's loads of whole vectors allow that, loads of one lane do not.
template <class D>
HWY_INLINE hn::Vec<D> load_anywhere(D d, const hn::TFromD<D>* p) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    hn::TFromD<D> x;
    std::memcpy(&x, p, sizeof(x));
    return hn::Set(d, x);
  } else {
    return hn::LoadU(d, p);
  }
}

template <class D>
HWY_INLINE void store_anywhere(hn::Vec<D> v, D d, hn::TFromD<D>* p) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    const hn::TFromD<D> x = hn::GetLane(v);
    std::memcpy(p, &x, sizeof(x));
  } else {
    hn::StoreU(v, d, p);
  }
}

// The payload of the sum of two NaNs depends on the order of operands, which the compiler chooses for each loop. So
// arithmetic always returns one NaN: positive, quiet, no payload.
template <class Op, class D, class V>
HWY_INLINE V one_nan(D d, V v) {
  if constexpr (!Op::kArithmetic) return v;
  const auto nan = hn::Set(d, std::numeric_limits<hn::TFromD<D>>::quiet_NaN());
  return hn::IfThenElse(hn::IsNaN(v), nan, v);
}

// Within the finite numbers.
template <class D, class V>
HWY_INLINE V clamped(D d, V v) {
  const auto largest = hn::Set(d, std::numeric_limits<hn::TFromD<D>>::max());
  return hn::Min(hn::Max(v, hn::Neg(largest)), largest);
}

// float32 and float64: the accumulator is the element. D is a Highway tag.
template <class D>
struct FloatPack {
  using Elem = hn::TFromD<D>;
  using Acc = Elem;
  using Pack = hn::Vec<D>;
  static HWY_INLINE std::size_t lanes() { return hn::Lanes(D()); }
  static HWY_INLINE Pack load(const Elem* p) { return load_anywhere(D(), p); }
  static HWY_INLINE void store(Pack v, Elem* p) { store_anywhere(v, D(), p); }
  static HWY_INLINE Pack load_acc(const Acc* p) { return load(p); }
  static HWY_INLINE void store_acc(Pack v, Acc* p) { store(v, p); }
  static HWY_INLINE bool any_infinite(Pack v) { return !hn::AllFalse(D(), hn::IsInf(v)); }
  static HWY_INLINE Pack clamp(Pack v) { return clamped(D(), v); }
  template <class Op>
  static HWY_INLINE Pack combine(Pack a, Pack b) {
    return Op::combine(D(), a, b);
  }
  template <class Op>
  static HWY_INLINE Pack finish(Pack a, Acc divisor) {
    return one_nan<Op>(D(), Op::finish(D(), a, divisor));
  }
};

// float16 and bfloat16 by conversion of consecutive lanes. D is a float tag.
template <class D, class Half>
struct HalfPack {
  using Elem = std::uint16_t;
  using Acc = float;
  using Pack = hn::Vec<D>;
  static HWY_INLINE std::size_t lanes() { return hn::Lanes(D()); }
  static HWY_INLINE Pack load(const Elem* p) { return Half::widen(D(), load_anywhere(hn::Rebind<Elem, D>(), p)); }
  static HWY_INLINE void store(Pack v, Elem* p) { store_anywhere(Half::narrow(D(), v), hn::Rebind<Elem, D>(), p); }
  static HWY_INLINE Pack load_acc(const Acc* p) { return hn::LoadU(D(), p); }
  static HWY_INLINE void store_acc(Pack v, Acc* p) { hn::StoreU(v, D(), p); }
  static HWY_INLINE bool any_infinite(Pack v) { return !hn::AllFalse(D(), hn::IsInf(v)); }
  static HWY_INLINE Pack clamp(Pack v) { return clamped(D(), v); }
  template <class Op>
  static HWY_INLINE Pack combine(Pack a, Pack b) {
    return Op::combine(D(), a, b);
  }
  template <class Op>
  static HWY_INLINE Pack finish(Pack a, Acc divisor) {
    if constexpr (Half::kOneNan) return Op::finish(D(), a, divisor);
    return one_nan<Op>(D(), Op::finish(D(), a, divisor));
  }
};

// bfloat16 without shuffles: even and odd elements in a vector each.
#if HWY_TARGET != HWY_SCALAR
struct Bfloat16Pairs {
  using Elem = std::uint16_t;
  using Acc = float;
  using Df = hn::ScalableTag<float>;
  using Du = hn::ScalableTag<std::uint32_t>;
  using Dh = hn::ScalableTag<std::uint16_t>;
  // Constructors that the compiler makes are not compiled for the target, and cannot inline those of NEON's vectors.
  struct Pack {
    hn::Vec<Df> even, odd;
    HWY_INLINE Pack() {}  // NOLINT(modernize-use-equals-default)
    HWY_INLINE Pack(hn::Vec<Df> even_ones, hn::Vec<Df> odd_ones) : even(even_ones), odd(odd_ones) {}
  };
  static HWY_INLINE std::size_t lanes() { return hn::Lanes(Dh()); }
  static HWY_INLINE Pack load(const Elem* p) {
    const auto pairs = hn::BitCast(Du(), hn::LoadU(Dh(), p));
    return {hn::BitCast(Df(), hn::ShiftLeft<16>(pairs)), hn::BitCast(Df(), hn::And(pairs, hn::Set(Du(), 0xFFFF0000u)))};
  }
  static HWY_INLINE void store(const Pack& v, Elem* p) {
    const auto even = hn::ShiftRight<16>(Bfloat16::rounded_bits(Df(), v.even));
    const auto odd = hn::And(Bfloat16::rounded_bits(Df(), v.odd), hn::Set(Du(), 0xFFFF0000u));
    hn::StoreU(hn::BitCast(Dh(), hn::Or(even, odd)), Dh(), p);
  }
  static HWY_INLINE Pack load_acc(const Acc* p) { return {hn::LoadU(Df(), p), hn::LoadU(Df(), p + hn::Lanes(Df()))}; }
  static HWY_INLINE void store_acc(const Pack& v, Acc* p) {
    hn::StoreU(v.even, Df(), p);
    hn::StoreU(v.odd, Df(), p + hn::Lanes(Df()));
  }
  static HWY_INLINE bool any_infinite(const Pack& v) {
    return !hn::AllFalse(Df(), hn::Or(hn::IsInf(v.even), hn::IsInf(v.odd)));
  }
  template <class Op>
  static HWY_INLINE Pack combine(const Pack& a, const Pack& b) {
    return {Op::combine(Df(), a.even, b.even), Op::combine(Df(), a.odd, b.odd)};
  }
  template <class Op>
  static HWY_INLINE Pack finish(const Pack& a, Acc divisor) {
    return {Op::finish(Df(), a.even, divisor), Op::finish(Df(), a.odd, divisor)};
  }
};
#else
using Bfloat16Pairs = HalfPack<hn::ScalableTag<float>, Bfloat16>;
#endif

}  // namespace xoe::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard

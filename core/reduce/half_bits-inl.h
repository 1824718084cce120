// float16 and bfloat16 to and from float32, the same bits on every instruction set: round to nearest even, infinities
// and subnormals exact, NaN stays NaN. Included once per instruction set.
#include <cstdint>

#include "hwy/highway.h"

#if defined(XOE_REDUCE_HALF_BITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef XOE_REDUCE_HALF_BITS_INL_H_
#undef XOE_REDUCE_HALF_BITS_INL_H_
#else
#define XOE_REDUCE_HALF_BITS_INL_H_
#endif

// Highway's own conversion truncates where the processor has none.
#undef XOE_REDUCE_NATIVE_F16
#if HWY_TARGET <= HWY_AVX2 || (HWY_ARCH_ARM_A64 && HWY_TARGET < HWY_EMU128)
#define XOE_REDUCE_NATIVE_F16 1
#else
#define XOE_REDUCE_NATIVE_F16 0
#endif

HWY_BEFORE_NAMESPACE();
namespace xoe::reduce::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Bfloat16 {
  static constexpr bool kOneNan = true;  // narrow() gives every NaN the same bits
  // The float32 whose upper half is the result; the lower half is undefined.
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> rounded_bits(D d, V v) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, v);
    const auto tie = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
    const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7FFF)), tie);
    const auto nan = hn::BitCast(d, hn::Set(du, 0x7FC00000));
    return hn::BitCast(du, hn::IfThenElse(hn::IsNaN(v), nan, hn::BitCast(d, rounded)));
  }
  template <class D, class H>
  static HWY_INLINE hn::Vec<D> widen(D d, H half) {
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(hn::RebindToUnsigned<D>(), half)));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, D>> narrow(D d, V v) {
    const auto upper = hn::ShiftRight<16>(rounded_bits(d, v));
    return hn::DemoteTo(hn::Rebind<std::uint16_t, D>(), hn::BitCast(hn::RebindToSigned<D>(), upper));
  }
};

#if XOE_REDUCE_NATIVE_F16
struct Float16 {
  static constexpr bool kOneNan = false;  // narrow() keeps sign and payload
  template <class D, class H>
  static HWY_INLINE hn::Vec<D> widen(D d, H half) {
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), half));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, D>> narrow(D, V v) {
    return hn::BitCast(hn::Rebind<std::uint16_t, D>(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v));
  }
};
#else
struct Float16 {
  static constexpr bool kOneNan = false;  // narrow() keeps sign and payload
  template <class D, class H>
  static HWY_INLINE hn::Vec<D> widen(D d, H half) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::PromoteTo(du, half);
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000)));
    const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(du, 0x7FFF)));
    const auto exponent = hn::And(magnitude, hn::Set(du, 0x0F800000));
    // Normal numbers only need the other exponent bias: 127 - 15.
    const auto normal = hn::Add(magnitude, hn::Set(du, 0x38000000));
    // Infinity and NaN: the largest exponent. The quiet bit follows from any payload.
    const auto payload = hn::And(magnitude, hn::Set(du, 0x007FFFFF));
    const auto quiet = hn::IfThenZeroElse(hn::Eq(payload, hn::Zero(du)), hn::Set(du, 0x00400000));
    const auto special = hn::Or(hn::Or(hn::Set(du, 0x7F800000), payload), quiet);
    // Subnormals: add a power of two above the digits and subtract it again; exact.
    const auto one = hn::Set(du, 0x38800000);  // 2^-14
    const auto subnormal = hn::BitCast(du, hn::Sub(hn::BitCast(d, hn::Add(magnitude, one)), hn::BitCast(d, one)));
    auto result = hn::IfThenElse(hn::Eq(exponent, hn::Set(du, 0x0F800000)), special, normal);
    result = hn::IfThenElse(hn::Eq(exponent, hn::Zero(du)), subnormal, result);
    return hn::BitCast(d, hn::Or(result, sign));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, D>> narrow(D d, V v) {
    // Signed lanes: every magnitude is positive, and signed comparison exists everywhere.
    const hn::RebindToSigned<D> di;
    const auto bits = hn::BitCast(di, v);
    const auto magnitude = hn::And(bits, hn::Set(di, 0x7FFFFFFF));
    const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(di, 0x8000));
    const auto tie = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(di, 1));
    const auto rebiased = hn::Add(hn::Sub(magnitude, hn::Set(di, 0x38000000)), hn::Add(hn::Set(di, 0xFFF), tie));
    const auto normal = hn::ShiftRight<13>(rebiased);
    // Below 2^-14: adding 0.5 makes the float32 unit round at 2^-24, the smallest float16.
    const auto half = hn::Set(di, 0x3F000000);
    const auto shifted = hn::Add(hn::BitCast(d, magnitude), hn::BitCast(d, half));
    const auto subnormal = hn::Sub(hn::BitCast(di, shifted), half);
    const auto infinity = hn::Set(di, 0x7C00);
    const auto payload = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(di, 0x3FF));
    const auto nan = hn::Or(hn::Set(di, 0x7E00), payload);
    auto result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x38800000)), subnormal, normal);
    result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x477FFFFF)), infinity, result);
    result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7F800000)), nan, result);
    return hn::DemoteTo(hn::Rebind<std::uint16_t, D>(), hn::Or(result, sign));
  }
};
#endif

}  // namespace xoe::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard

// Sums of two products of 16-bit numbers. Included once per instruction set by foreach_target.
#if defined(XOE_DATA_JPEG_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef XOE_DATA_JPEG_PRODUCTS_INL_H_
#undef XOE_DATA_JPEG_PRODUCTS_INL_H_
#else
#define XOE_DATA_JPEG_PRODUCTS_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xoe::data::jpeg::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Int16s = hn::ScalableTag<std::int16_t>;
using Int32s = hn::RepartitionToWide<Int16s>;
using WordVec = hn::Vec<Int16s>;
using LongVec = hn::Vec<Int32s>;

// Two vectors of 32-bit numbers, in the order of widening, which narrow() reverses.
struct Wide {
  LongVec low;
  LongVec high;
};

HWY_INLINE Wide operator+(Wide a, Wide b) { return {hn::Add(a.low, b.low), hn::Add(a.high, b.high)}; }
HWY_INLINE Wide operator-(Wide a, Wide b) { return {hn::Sub(a.low, b.low), hn::Sub(a.high, b.high)}; }

HWY_INLINE LongVec sum_of_pairs(WordVec a, WordVec b) {
  LongVec odd = hn::Zero(Int32s());
  const LongVec even = hn::ReorderWidenMulAccumulate(Int32s(), a, b, hn::Zero(Int32s()), odd);
  return hn::RearrangeToOddPlusEven(even, odd);
}

// Two factors, side by side in memory.
HWY_INLINE WordVec factors(int for_a, int for_b) {
  const auto low = static_cast<std::uint32_t>(static_cast<std::uint16_t>(for_a));
  const auto high = static_cast<std::uint32_t>(static_cast<std::uint16_t>(for_b));
  return hn::BitCast(Int16s(), hn::Set(Int32s(), static_cast<std::int32_t>(low | high << 16)));
}

// Two vectors, zipped.
struct Zipped {
  WordVec low;
  WordVec high;
};
HWY_INLINE Zipped zip(WordVec a, WordVec b) {
  return {hn::InterleaveLower(Int16s(), a, b), hn::InterleaveUpper(Int16s(), a, b)};
}

// a * for_a + b * for_b
HWY_INLINE Wide products(Zipped ab, WordVec both_factors) {
  return {sum_of_pairs(ab.low, both_factors), sum_of_pairs(ab.high, both_factors)};
}

// Divides by 2^kShift, rounding; saturates.
template <int kShift>
HWY_INLINE WordVec narrow(Wide w) {
  const LongVec half = hn::Set(Int32s(), 1 << (kShift - 1));
  return hn::ReorderDemote2To(Int16s(), hn::ShiftRight<kShift>(hn::Add(w.low, half)),
                              hn::ShiftRight<kShift>(hn::Add(w.high, half)));
}

}  // namespace xoe::data::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per instruction set

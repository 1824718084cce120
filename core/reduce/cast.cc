// cast() and scale().
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/reduce/float_state.h"
#include "core/reduce/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/reduce/cast.cc"
#include "hwy/foreach_target.h"  // before highway.h: compiles this file once per instruction set
#include "hwy/highway.h"

#include "core/reduce/packs-inl.h"  // a block of its own, so that sorting leaves it behind foreach_target.h

HWY_BEFORE_NAMESPACE();
namespace xoe::reduce::HWY_NAMESPACE {

// float64 via float32 vectors. kToHalf: digits beyond float32 are kept as a sticky last bit ("round to odd"), so that
// the result is rounded only once, to 16 bits.
template <class D, bool kToHalf>
class DoublePack {
 public:
  using Elem = double;
  using Dd = hn::Rebind<double, D>;
  using Di = hn::RebindToSigned<Dd>;
  static HWY_INLINE hn::Vec<D> load(const double* p) {
    const auto v = load_anywhere(Dd(), p);
    if constexpr (!kToHalf) {
      return demote(v);
    } else {
      const auto bits = hn::BitCast(Di(), v);
      const auto lost = hn::And(bits, hn::Set(Di(), 0x1FFFFFFF));  // the 29 bits below float32's last
      const auto sticky = hn::IfThenZeroElse(hn::Eq(lost, hn::Zero(Di())), hn::Set(Di(), 0x20000000));
      const auto odd = hn::BitCast(Dd(), hn::Or(hn::Sub(bits, lost), sticky));
      // Below 2^-126 float32 has fewer digits: round at 2^-133, bfloat16's smallest, at once.
      const auto grid = hn::Set(Dd(), 0x1.8p-81);
      const auto small = hn::CopySign(hn::Sub(hn::Add(hn::Abs(v), grid), grid), v);
      return demote(hn::IfThenElse(hn::Lt(hn::Abs(v), hn::Set(Dd(), 0x1p-126)), small, odd));
    }
  }
  static HWY_INLINE void store(hn::Vec<D> v, double* p) { store_anywhere(hn::PromoteTo(Dd(), v), Dd(), p); }

 private:
  static HWY_INLINE hn::Vec<D> demote(hn::Vec<Dd> v) {
#if HWY_TARGET == HWY_SCALAR
    return hn::Set(D(), static_cast<float>(hn::GetLane(v)));  // Highway's would clamp to the largest float
#else
    return hn::DemoteTo(D(), v);
#endif
  }
};

template <DType kType, DType kOther, class D>
auto pack_of() {
  if constexpr (kType == DType::kFloat16) {
    return HalfPack<D, Float16>();
  } else if constexpr (kType == DType::kBfloat16) {
    return HalfPack<D, Bfloat16>();
  } else if constexpr (kType == DType::kFloat32) {
    return FloatPack<D>();
  } else {
    return DoublePack<D, dtype_size(kOther) == 2>();
  }
}

// One vector of D at element i.
template <DType kFrom, DType kTo, class D>
HWY_INLINE void cast_vector(const void* in, void* out, std::size_t i) {
  using From = decltype(pack_of<kFrom, kTo, D>());
  using To = decltype(pack_of<kTo, kFrom, D>());
  To::store(From::load(static_cast<const typename From::Elem*>(in) + i), static_cast<typename To::Elem*>(out) + i);
}

template <DType kFrom, DType kTo>
void cast_pair(const void* in, void* out, std::size_t count) {
  constexpr bool kDoubles = kFrom == DType::kFloat64 || kTo == DType::kFloat64;
  using Wide = std::conditional_t<kDoubles, hn::Rebind<float, hn::ScalableTag<double>>, hn::ScalableTag<float>>;
  const std::size_t lanes = hn::Lanes(Wide());
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) cast_vector<kFrom, kTo, Wide>(in, out, i);
  for (; i < count; ++i) cast_vector<kFrom, kTo, hn::CappedTag<float, 1>>(in, out, i);
}

template <DType kFrom>
void cast_from(const void* in, void* out, DType out_type, std::size_t count) {
  if (out_type == kFrom) {
    std::memcpy(out, in, count * dtype_size(kFrom));
    return;
  }
  if (out_type == DType::kFloat16) return cast_pair<kFrom, DType::kFloat16>(in, out, count);
  if (out_type == DType::kBfloat16) return cast_pair<kFrom, DType::kBfloat16>(in, out, count);
  if (out_type == DType::kFloat32) return cast_pair<kFrom, DType::kFloat32>(in, out, count);
  return cast_pair<kFrom, DType::kFloat64>(in, out, count);
}

void cast_any(const void* in, DType in_type, void* out, DType out_type, std::size_t count) {
  if (in_type == DType::kFloat16) return cast_from<DType::kFloat16>(in, out, out_type, count);
  if (in_type == DType::kBfloat16) return cast_from<DType::kBfloat16>(in, out, out_type, count);
  if (in_type == DType::kFloat32) return cast_from<DType::kFloat32>(in, out, out_type, count);
  return cast_from<DType::kFloat64>(in, out, out_type, count);
}

template <class P, class D>
HWY_INLINE std::size_t scale_vectors(typename P::Elem* x, std::size_t i, std::size_t count, D d, hn::TFromD<D> factor) {
  const std::size_t lanes = hn::Lanes(d);
  for (; i + lanes <= count; i += lanes) P::store(hn::Mul(P::load(x + i), hn::Set(d, factor)), x + i);
  return i;
}

template <class T, template <class> class P>
void scale_type(void* data, std::size_t count, double factor) {
  using Wide = hn::ScalableTag<T>;
  using One = hn::CappedTag<T, 1>;
  auto* x = static_cast<typename P<One>::Elem*>(data);
  const std::size_t i = scale_vectors<P<Wide>>(x, 0, count, Wide(), static_cast<T>(factor));
  scale_vectors<P<One>>(x, i, count, One(), static_cast<T>(factor));
}

template <class D>
using Float16Pack = HalfPack<D, Float16>;
template <class D>
using Bfloat16Pack = HalfPack<D, Bfloat16>;

void scale_any(void* x, std::size_t count, DType dtype, double factor) {
  if (dtype == DType::kFloat16) return scale_type<float, Float16Pack>(x, count, factor);
  if (dtype == DType::kBfloat16) return scale_type<float, Bfloat16Pack>(x, count, factor);
  if (dtype == DType::kFloat32) return scale_type<float, FloatPack>(x, count, factor);
  return scale_type<double, FloatPack>(x, count, factor);
}

}  // namespace xoe::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace xoe::reduce {

HWY_EXPORT(cast_any);
HWY_EXPORT(scale_any);

void cast(const void* in, DType in_type, void* out, DType out_type, std::size_t count) noexcept {
  if (count == 0) return;
  const DefaultFloatState state;
  HWY_DYNAMIC_DISPATCH(cast_any)(in, in_type, out, out_type, count);
}

namespace {

template <class T>
void scale_integers(void* data, std::size_t count, double factor) {
  constexpr auto kLow = static_cast<double>(std::numeric_limits<T>::min());
  constexpr auto kHigh = static_cast<double>(std::numeric_limits<T>::max());  // of 64 bits: one above
  auto* x = static_cast<T*>(data);
  for (std::size_t i = 0; i < count; ++i) {
    const double scaled = static_cast<double>(x[i]) * factor;
    x[i] = scaled >= kHigh  ? std::numeric_limits<T>::max()
           : scaled <= kLow ? std::numeric_limits<T>::min()
                            : static_cast<T>(scaled);
  }
}

}  // namespace

void scale(void* x, std::size_t count, DType dtype, double factor) noexcept {
  if (count == 0) return;
  switch (dtype) {
    case DType::kUint8: return scale_integers<std::uint8_t>(x, count, factor);
    case DType::kInt8: return scale_integers<std::int8_t>(x, count, factor);
    case DType::kInt16: return scale_integers<std::int16_t>(x, count, factor);
    case DType::kInt32: return scale_integers<std::int32_t>(x, count, factor);
    case DType::kInt64: return scale_integers<std::int64_t>(x, count, factor);
    default: break;
  }
  const DefaultFloatState state;
  HWY_DYNAMIC_DISPATCH(scale_any)(x, count, dtype, factor);
}

}  // namespace xoe::reduce
#endif

// Conversion to the output's type and layout.
#include <algorithm>
#include <cstring>

#include "data/image/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/image/store.cc"
#include "hwy/foreach_target.h"  // before highway.h: compiles this file once per instruction set
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xoe::data::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using V = hn::Vec<Floats>;

// For each type: Elem, its tag with as many lanes as Floats has, and the conversion to the nearest value, ties to even.
// All values are finite.
struct ToFloat32 {
  using Elem = float;
  using Tag = Floats;
  static HWY_INLINE V convert(V v) { return v; }
};

struct ToBfloat16 {
  using Elem = std::uint16_t;
  using Tag = hn::Rebind<Elem, Floats>;
  static HWY_INLINE hn::Vec<Tag> convert(V v) {
    const hn::RebindToUnsigned<Floats> words;
    const auto bits = hn::BitCast(words, v);
    const auto tie = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
    const auto upper = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(words, 0x7FFF)), tie));
    return hn::DemoteTo(Tag(), hn::BitCast(hn::RebindToSigned<Floats>(), upper));
  }
};

struct ToFloat16 {
  using Elem = std::uint16_t;
  using Tag = hn::Rebind<Elem, Floats>;
#if HWY_TARGET <= HWY_AVX2 || (HWY_ARCH_ARM_A64 && HWY_TARGET < HWY_EMU128)
  static HWY_INLINE hn::Vec<Tag> convert(V v) {
    return hn::BitCast(Tag(), hn::DemoteTo(hn::Rebind<hwy::float16_t, Floats>(), v));
  }
#else
  // Highway's conversion truncates where the processor has none.
  static HWY_INLINE hn::Vec<Tag> convert(V v) {
    const hn::RebindToSigned<Floats> words;
    const auto sign = hn::And(hn::ShiftRight<16>(hn::BitCast(words, v)), hn::Set(words, 0x8000));
    const V size = hn::Min(hn::Abs(v), hn::Set(Floats(), 65536));
    const auto bits = hn::BitCast(words, size);
    const auto tie = hn::And(hn::ShiftRight<13>(bits), hn::Set(words, 1));
    const auto normal = hn::ShiftRight<13>(hn::Add(hn::Sub(bits, hn::Set(words, 0x38000000 - 0xFFF)), tie));
    // Below 2^-14: adding 0.5 makes the sum round at 2^-24, the smallest float16.
    const V half = hn::Set(Floats(), 0.5F);
    const auto small = hn::Sub(hn::BitCast(words, hn::Add(size, half)), hn::BitCast(words, half));
    const auto chosen = hn::IfThenElse(hn::Lt(bits, hn::Set(words, 0x38800000)), small, normal);
    return hn::DemoteTo(Tag(), hn::Or(chosen, sign));
  }
#endif
};

struct ToUint8 {
  using Elem = std::uint8_t;
  using Tag = hn::Rebind<Elem, Floats>;
  static HWY_INLINE hn::Vec<Tag> convert(V v) { return hn::DemoteTo(Tag(), hn::NearestInt(v)); }
};

// `count` is at least the number of lanes.
template <class To>
void plane(const float* row, typename To::Elem* to, std::size_t count) {
  const std::size_t lanes = hn::Lanes(Floats());
  for (std::size_t x = 0; x < count; x += lanes) {
    const std::size_t at = std::min(x, count - lanes);
    hn::StoreU(To::convert(hn::LoadU(Floats(), row + at)), typename To::Tag(), to + at);
  }
}

template <class To>
void pixels(const std::array<const float*, 3>& rows, typename To::Elem* to, std::size_t count) {
  const std::size_t lanes = hn::Lanes(Floats());
  for (std::size_t x = 0; x < count; x += lanes) {
    const std::size_t at = std::min(x, count - lanes);
    hn::StoreInterleaved3(To::convert(hn::LoadU(Floats(), rows[0] + at)),
                          To::convert(hn::LoadU(Floats(), rows[1] + at)),
                          To::convert(hn::LoadU(Floats(), rows[2] + at)), typename To::Tag(), to + 3 * at);
  }
}

// A row that is shorter than a vector is converted in a longer buffer.
template <class To>
void any_plane(const float* row, void* to, std::size_t count) {
  using Elem = typename To::Elem;
  if (count >= kRowFloats) return plane<To>(row, static_cast<Elem*>(to), count);
  Elem few[kRowFloats];
  plane<To>(row, few, kRowFloats);
  std::memcpy(to, few, count * sizeof(Elem));
}

template <class To>
void any_pixels(const std::array<const float*, 3>& rows, void* to, std::size_t count) {
  using Elem = typename To::Elem;
  if (count >= kRowFloats) return pixels<To>(rows, static_cast<Elem*>(to), count);
  Elem few[3 * kRowFloats];
  pixels<To>(rows, few, kRowFloats);
  std::memcpy(to, few, 3 * count * sizeof(Elem));
}

void planes_as(const float* row, DType dtype, void* to, std::size_t count) {
  if (dtype == DType::kFloat32) return any_plane<ToFloat32>(row, to, count);
  if (dtype == DType::kFloat16) return any_plane<ToFloat16>(row, to, count);
  if (dtype == DType::kBfloat16) return any_plane<ToBfloat16>(row, to, count);
  any_plane<ToUint8>(row, to, count);
}

void pixels_as(const std::array<const float*, 3>& rows, DType dtype, void* to, std::size_t count) {
  if (dtype == DType::kFloat32) return any_pixels<ToFloat32>(rows, to, count);
  if (dtype == DType::kFloat16) return any_pixels<ToFloat16>(rows, to, count);
  if (dtype == DType::kBfloat16) return any_pixels<ToBfloat16>(rows, to, count);
  any_pixels<ToUint8>(rows, to, count);
}

void deinterleave_rows(const std::uint8_t* from, const std::array<std::uint8_t*, 3>& to, std::size_t count) {
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t x = 0;
  for (; x + lanes <= count; x += lanes) {
    hn::Vec<decltype(d)> a;
    hn::Vec<decltype(d)> b;
    hn::Vec<decltype(d)> c;
    hn::LoadInterleaved3(d, from + 3 * x, a, b, c);
    hn::StoreU(a, d, to[0] + x);
    hn::StoreU(b, d, to[1] + x);
    hn::StoreU(c, d, to[2] + x);
  }
  for (; x < count; ++x)
    for (std::size_t c = 0; c < 3; ++c) to[c][x] = from[3 * x + c];
}

}  // namespace xoe::data::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace xoe::data {

HWY_EXPORT(planes_as);
HWY_EXPORT(pixels_as);
HWY_EXPORT(deinterleave_rows);

void store_plane(const float* row, DType dtype, void* to, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(planes_as)(row, dtype, to, count);
}

void store_pixels(const std::array<const float*, 3>& rows, DType dtype, void* to, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(pixels_as)(rows, dtype, to, count);
}

void deinterleave(const std::uint8_t* pixels, const std::array<std::uint8_t*, 3>& to, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(deinterleave_rows)(pixels, to, count);
}

}  // namespace xoe::data
#endif

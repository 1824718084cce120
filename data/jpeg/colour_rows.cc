#include "data/jpeg/colour_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/jpeg/colour_rows.cc"
#include "hwy/foreach_target.h"  // before highway.h: compiles this file once per instruction set
#include "hwy/highway.h"

#include "data/jpeg/products-inl.h"  // a block of its own, so that sorting leaves it behind foreach_target.h

HWY_BEFORE_NAMESPACE();
namespace xoe::data::jpeg::HWY_NAMESPACE {
namespace {

using Bytes = hn::Repartition<std::uint8_t, Int16s>;
using ByteHalf = hn::Rebind<std::uint8_t, Int16s>;

// Samples of neighbouring pixels, those with even and those with odd x, in lanes of 16 bits.
struct Pairs {
  WordVec even;
  WordVec odd;
};

HWY_INLINE WordVec set(int value) { return hn::Set(Int16s(), static_cast<std::int16_t>(value)); }

// Two bytes in one lane.
HWY_INLINE Pairs load_pairs(const std::uint8_t* at) {
  const hn::RebindToUnsigned<Int16s> d;
  const auto both = hn::BitCast(d, hn::LoadU(Bytes(), at));
  return {hn::BitCast(Int16s(), hn::And(both, hn::Set(d, 255))), hn::BitCast(Int16s(), hn::ShiftRight<8>(both))};
}

HWY_INLINE WordVec clamp(WordVec v) { return hn::Min(hn::Max(v, set(0)), set(255)); }

HWY_INLINE void store_pairs(WordVec even, WordVec odd, std::uint8_t* at) {
  hn::StoreU(hn::BitCast(Bytes(), hn::Or(clamp(even), hn::ShiftLeft<8>(clamp(odd)))), Bytes(), at);
}

HWY_INLINE WordVec load_one(const std::uint8_t* at) { return hn::PromoteTo(Int16s(), hn::LoadU(ByteHalf(), at)); }

// 3 * near + far
HWY_INLINE WordVec weighted(WordVec near, WordVec far) { return hn::Add(hn::Add(near, hn::ShiftLeft<1>(near)), far); }

// Chroma for two pixels a lane. Rounding alternates from pixel to pixel, so that it has no bias.
template <Sampling kSampling>
HWY_INLINE Pairs chroma(const std::uint8_t* near, const std::uint8_t* far, WordVec down_rounding) {
  if constexpr (kSampling == Sampling::kFull) {
    return load_pairs(near);
  } else if constexpr (kSampling == Sampling::kHalfDown) {
    const Pairs n = load_pairs(near);
    const Pairs f = load_pairs(far);
    return {hn::ShiftRight<2>(hn::Add(weighted(n.even, f.even), down_rounding)),
            hn::ShiftRight<2>(hn::Add(weighted(n.odd, f.odd), down_rounding))};
  } else if constexpr (kSampling == Sampling::kHalfAcross) {
    const WordVec here = load_one(near);
    return {hn::ShiftRight<2>(hn::Add(weighted(here, load_one(near - 1)), set(1))),
            hn::ShiftRight<2>(hn::Add(weighted(here, load_one(near + 1)), set(2)))};
  } else {
    const WordVec here = weighted(load_one(near), load_one(far));
    const WordVec left = weighted(load_one(near - 1), load_one(far - 1));
    const WordVec right = weighted(load_one(near + 1), load_one(far + 1));
    return {hn::ShiftRight<4>(hn::Add(weighted(here, left), set(8))),
            hn::ShiftRight<4>(hn::Add(weighted(here, right), set(7)))};
  }
}

// The differences to luma.
struct Offsets {
  WordVec red;
  WordVec green;
  WordVec blue;
};

// The factors are 1.402, -0.344136, -0.714136 and 1.772 times 2^16, without their integral parts, which are added
// apart.
HWY_INLINE Offsets offsets(WordVec cb, WordVec cr) {
  cb = hn::Sub(cb, set(128));
  cr = hn::Sub(cr, set(128));
  const auto rounded = [](WordVec twice_product_high) {
    return hn::ShiftRight<1>(hn::Add(twice_product_high, set(1)));
  };
  const WordVec red = hn::Add(cr, rounded(hn::MulHigh(hn::Add(cr, cr), set(26345))));
  const WordVec twice_cb = hn::Add(cb, cb);
  const WordVec blue = hn::Add(twice_cb, rounded(hn::MulHigh(twice_cb, set(-14942))));
  const WordVec green = hn::Sub(narrow<16>(products(zip(cb, cr), factors(-22554, 18734))), cr);
  return {red, green, blue};
}

template <Sampling kSampling>
void convert(const SampleRows& rows, std::size_t width, const std::array<std::uint8_t*, 3>& rgb) {
  constexpr bool kHalf = kSampling == Sampling::kHalfAcross || kSampling == Sampling::kQuarter;
  const WordVec down_rounding = set(rows.far_is_below ? 2 : 1);
  for (std::size_t x = 0; x < width; x += hn::Lanes(Bytes())) {
    const std::size_t c = kHalf ? x / 2 : x;
    const Pairs cb = chroma<kSampling>(rows.near[0] + c, rows.far[0] + c, down_rounding);
    const Pairs cr = chroma<kSampling>(rows.near[1] + c, rows.far[1] + c, down_rounding);
    const Pairs luma = load_pairs(rows.luma + x);
    const Offsets even = offsets(cb.even, cr.even);
    const Offsets odd = offsets(cb.odd, cr.odd);
    store_pairs(hn::Add(luma.even, even.red), hn::Add(luma.odd, odd.red), rgb[0] + x);
    store_pairs(hn::Add(luma.even, even.green), hn::Add(luma.odd, odd.green), rgb[1] + x);
    store_pairs(hn::Add(luma.even, even.blue), hn::Add(luma.odd, odd.blue), rgb[2] + x);
  }
}

}  // namespace

void convert_row(Sampling sampling, const SampleRows& rows, std::size_t width,
                 const std::array<std::uint8_t*, 3>& rgb) {
  switch (sampling) {
    case Sampling::kFull: return convert<Sampling::kFull>(rows, width, rgb);
    case Sampling::kHalfAcross: return convert<Sampling::kHalfAcross>(rows, width, rgb);
    case Sampling::kHalfDown: return convert<Sampling::kHalfDown>(rows, width, rgb);
    case Sampling::kQuarter: return convert<Sampling::kQuarter>(rows, width, rgb);
  }
}

}  // namespace xoe::data::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace xoe::data::jpeg {

HWY_EXPORT(convert_row);

void convert_row(Sampling sampling, const SampleRows& rows, std::size_t width,
                 const std::array<std::uint8_t*, 3>& rgb) {
  HWY_DYNAMIC_DISPATCH(convert_row)(sampling, rows, width, rgb);
}

}  // namespace xoe::data::jpeg
#endif

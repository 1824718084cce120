#include "data/jpeg/idct.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/jpeg/idct.cc"
#include "hwy/foreach_target.h"  // before highway.h: compiles this file once per instruction set
#include "hwy/highway.h"

#include "data/jpeg/products-inl.h"  // a block of its own, so that sorting leaves it behind foreach_target.h

// Where vectors are arrays in plain C++, a single large function takes sanitizers minutes to compile.
#undef XOE_IDCT_INLINE
#if HWY_TARGET == HWY_EMU128
#define XOE_IDCT_INLINE HWY_NOINLINE
#else
#define XOE_IDCT_INLINE HWY_INLINE
#endif

HWY_BEFORE_NAMESPACE();
namespace xoe::data::jpeg::HWY_NAMESPACE {
namespace {

// Eight lanes hold one block, so a vector transforms as many blocks at once as it has groups of eight lanes.
constexpr std::size_t kRowStep = 8 * kBlocksAtOnce;
static_assert(hn::MaxLanes(Int16s()) <= kRowStep && hn::MaxLanes(Int16s()) % 8 == 0);

constexpr int kConstantBits = 13;
constexpr int kFirstPassBits = 2;  // kept as a fraction between the passes

// The constants times 2^13.
constexpr int k0298 = 2446;
constexpr int k0390 = 3196;
constexpr int k0541 = 4433;
constexpr int k0765 = 6270;
constexpr int k0899 = 7373;
constexpr int k1175 = 9633;
constexpr int k1501 = 12299;
constexpr int k1847 = 15137;
constexpr int k1961 = 16069;
constexpr int k2053 = 16819;
constexpr int k2562 = 20995;
constexpr int k3072 = 25172;

struct Eight {
  WordVec v0, v1, v2, v3, v4, v5, v6, v7;
};

XOE_IDCT_INLINE Wide scaled(WordVec v) {
  const Zipped above = zip(hn::Zero(Int16s()), v);
  return {hn::ShiftRight<16 - kConstantBits>(hn::BitCast(Int32s(), above.low)),
          hn::ShiftRight<16 - kConstantBits>(hn::BitCast(Int32s(), above.high))};
}

// One dimension, along the vectors.
template <int kShift>
XOE_IDCT_INLINE Eight pass(const Eight& in) {
  const Zipped in26 = zip(in.v2, in.v6);
  const Wide even3 = products(in26, factors(k0541 + k0765, k0541));
  const Wide even2 = products(in26, factors(k0541, k0541 - k1847));
  const Wide even0 = scaled(hn::Add(in.v0, in.v4));
  const Wide even1 = scaled(hn::Sub(in.v0, in.v4));
  const Wide e0 = even0 + even3;
  const Wide e3 = even0 - even3;
  const Wide e1 = even1 + even2;
  const Wide e2 = even1 - even2;

  const Zipped z34 = zip(hn::Add(in.v7, in.v3), hn::Add(in.v5, in.v1));
  const Wide z3 = products(z34, factors(k1175 - k1961, k1175));
  const Wide z4 = products(z34, factors(k1175, k1175 - k0390));
  const Zipped in71 = zip(in.v7, in.v1);
  const Zipped in53 = zip(in.v5, in.v3);
  const Wide o0 = products(in71, factors(k0298 - k0899, -k0899)) + z3;
  const Wide o1 = products(in53, factors(k2053 - k2562, -k2562)) + z4;
  const Wide o2 = products(in53, factors(-k2562, k3072 - k2562)) + z3;
  const Wide o3 = products(in71, factors(-k0899, k1501 - k0899)) + z4;

  return {narrow<kShift>(e0 + o3), narrow<kShift>(e1 + o2), narrow<kShift>(e2 + o1), narrow<kShift>(e3 + o0),
          narrow<kShift>(e3 - o0), narrow<kShift>(e2 - o1), narrow<kShift>(e1 - o2), narrow<kShift>(e0 - o3)};
}

template <class T>
HWY_INLINE WordVec zip_low(WordVec a, WordVec b) {
  const hn::Repartition<T, Int16s> d;
  return hn::BitCast(Int16s(), hn::InterleaveLower(d, hn::BitCast(d, a), hn::BitCast(d, b)));
}
template <class T>
HWY_INLINE WordVec zip_high(WordVec a, WordVec b) {
  const hn::Repartition<T, Int16s> d;
  return hn::BitCast(Int16s(), hn::InterleaveUpper(d, hn::BitCast(d, a), hn::BitCast(d, b)));
}

// Transposes each group of 8 x 8.
XOE_IDCT_INLINE Eight transpose(const Eight& in) {
  using I16 = std::int16_t;
  using I32 = std::int32_t;
  using I64 = std::int64_t;
  const WordVec a0 = zip_low<I16>(in.v0, in.v1);
  const WordVec a1 = zip_high<I16>(in.v0, in.v1);
  const WordVec a2 = zip_low<I16>(in.v2, in.v3);
  const WordVec a3 = zip_high<I16>(in.v2, in.v3);
  const WordVec a4 = zip_low<I16>(in.v4, in.v5);
  const WordVec a5 = zip_high<I16>(in.v4, in.v5);
  const WordVec a6 = zip_low<I16>(in.v6, in.v7);
  const WordVec a7 = zip_high<I16>(in.v6, in.v7);
  const WordVec b0 = zip_low<I32>(a0, a2);
  const WordVec b1 = zip_high<I32>(a0, a2);
  const WordVec b2 = zip_low<I32>(a1, a3);
  const WordVec b3 = zip_high<I32>(a1, a3);
  const WordVec b4 = zip_low<I32>(a4, a6);
  const WordVec b5 = zip_high<I32>(a4, a6);
  const WordVec b6 = zip_low<I32>(a5, a7);
  const WordVec b7 = zip_high<I32>(a5, a7);
  return {zip_low<I64>(b0, b4), zip_high<I64>(b0, b4), zip_low<I64>(b1, b5), zip_high<I64>(b1, b5),
          zip_low<I64>(b2, b6), zip_high<I64>(b2, b6), zip_low<I64>(b3, b7), zip_high<I64>(b3, b7)};
}

HWY_INLINE bool all_zero(WordVec v) { return hn::AllTrue(Int16s(), hn::Eq(v, hn::Zero(Int16s()))); }

// Stores one row of samples of all groups.
XOE_IDCT_INLINE void store_row(WordVec v, std::uint8_t* samples) {
  const hn::Rebind<std::uint8_t, Int16s> d;
  hn::StoreU(hn::DemoteTo(d, hn::SaturatedAdd(v, hn::Set(Int16s(), 128))), d, samples);
}

HWY_INLINE WordVec column_mask() {
  HWY_ALIGN static constexpr std::int16_t kFirst[8] = {0, -1, -1, -1, -1, -1, -1, -1};
  return hn::LoadDup128(Int16s(), kFirst);
}

// libjpeg-turbo multiplies the first row of a block that has no other coefficients by four without saturating. This
// matters only for values that no encoder writes.
XOE_IDCT_INLINE WordVec wrap_lone_rows(WordVec first_row, WordVec wrapped, WordVec below) {
  const hn::RepartitionToWide<hn::RepartitionToWide<Int16s>> d;
  const auto halves = hn::BitCast(d, below);
  const auto lone = hn::Eq(hn::Or(halves, hn::Shuffle01(halves)), hn::Zero(d));
  return hn::BitCast(Int16s(), hn::IfThenElse(lone, hn::BitCast(d, wrapped), hn::BitCast(d, first_row)));
}

// Transforms as many blocks as a vector has groups of eight lanes.
HWY_INLINE void transform_groups(std::int16_t* coefficients, const std::int16_t* steps, std::uint8_t* samples,
                                 std::size_t stride) {
  WordVec row[8];
  for (std::size_t r = 0; r < 8; ++r) {
    row[r] = hn::LoadU(Int16s(), coefficients + kRowStep * r);
    hn::StoreU(hn::Zero(Int16s()), Int16s(), coefficients + kRowStep * r);
  }
  const WordVec below =
      hn::Or(hn::Or(hn::Or(row[1], row[2]), hn::Or(row[3], row[4])), hn::Or(hn::Or(row[5], row[6]), row[7]));
  if (all_zero(hn::Or(below, hn::And(row[0], column_mask())))) {
    const WordVec dc = hn::Mul(hn::Broadcast<0>(row[0]), hn::Set(Int16s(), steps[0]));
    const WordVec value = hn::ShiftRight<3>(hn::Add(dc, hn::Set(Int16s(), 4)));
    for (std::size_t r = 0; r < 8; ++r) store_row(value, samples + r * stride);
    return;
  }
  for (std::size_t r = 0; r < 8; ++r) row[r] = hn::Mul(row[r], hn::LoadDup128(Int16s(), steps + 8 * r));
  const WordVec wrapped = hn::ShiftRight<kFirstPassBits>(hn::ShiftLeft<kFirstPassBits>(row[0]));
  if (!hn::AllTrue(Int16s(), hn::Eq(wrapped, row[0]))) [[unlikely]]
    row[0] = wrap_lone_rows(row[0], wrapped, below);
  Eight block = {row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7]};
  block = transpose(pass<kConstantBits - kFirstPassBits>(block));
  block = transpose(pass<kConstantBits + kFirstPassBits + 3>(block));
  store_row(block.v0, samples);
  store_row(block.v1, samples + stride);
  store_row(block.v2, samples + 2 * stride);
  store_row(block.v3, samples + 3 * stride);
  store_row(block.v4, samples + 4 * stride);
  store_row(block.v5, samples + 5 * stride);
  store_row(block.v6, samples + 6 * stride);
  store_row(block.v7, samples + 7 * stride);
}

}  // namespace

void transform_blocks(std::int16_t* coefficients, std::size_t blocks, const std::array<std::uint16_t, 64>& steps,
                      std::uint8_t* samples, std::size_t stride) {
  const std::size_t lanes = hn::Lanes(Int16s());
  HWY_ALIGN std::int16_t factor[64];
  std::memcpy(factor, steps.data(), sizeof(factor));
  for (std::size_t block = 0; block < blocks; block += kBlocksAtOnce) {
    std::int16_t* group = coefficients + 64 * block;
    for (std::size_t lane = 0; lane < kRowStep; lane += lanes)
      transform_groups(group + lane, factor, samples + 8 * block + lane, stride);
  }
}

}  // namespace xoe::data::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace xoe::data::jpeg {

HWY_EXPORT(transform_blocks);

void transform_blocks(std::int16_t* coefficients, std::size_t blocks, const std::array<std::uint16_t, 64>& steps,
                      std::uint8_t* samples, std::size_t stride) {
  HWY_DYNAMIC_DISPATCH(transform_blocks)(coefficients, blocks, steps, samples, stride);
}

}  // namespace xoe::data::jpeg
#endif

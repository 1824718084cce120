// Horizontal interpolation: from the samples of a row to the output's columns.
#include <algorithm>
#include <cstring>

#include "data/image/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/image/columns.cc"
#include "hwy/foreach_target.h"  // before highway.h: compiles this file once per instruction set
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xoe::data::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr auto kWeights = static_cast<std::uint32_t>(kWeightSum);

// Sizes of groups whose samples lie within the bytes that one permutation reaches, the best first.
#if HWY_TARGET == HWY_AVX3_DL
constexpr std::array<std::size_t, 3> kGroups = {16, 8, 4};
constexpr std::int32_t kBytes = 64;
#elif HWY_TARGET == HWY_SCALAR
constexpr std::array<std::size_t, 0> kGroups = {};
constexpr std::int32_t kBytes = 0;
#else
constexpr std::array<std::size_t, 1> kGroups = {4};
constexpr std::int32_t kBytes = 16;
#endif

// Whether the taps of each group lie within `bytes` bytes.
bool fits(const AlignedArray<std::int32_t>& first, std::size_t group, std::int32_t bytes) {
  for (std::size_t i = 0; i < first.size(); i += group)
    if (std::abs(first[i + group - 1] - first[i]) > bytes - 2) return false;
  return true;
}

void make_lookups(ColumnTaps& columns) {
  const std::size_t outputs = columns.first.size();
  columns.bases.resize(outputs / columns.group);
  columns.lookups.resize(outputs);
  for (std::size_t g = 0; g < columns.bases.size(); ++g) {
    const std::size_t begin = g * columns.group;
    const std::int32_t base = std::min(columns.first[begin], columns.first[begin + columns.group - 1]);
    columns.bases[g] = base;
    // Bytes 0 and 2 name the samples; a high bit in 1 and 3 makes zeros.
    for (std::size_t i = begin; i < begin + columns.group; ++i)
      columns.lookups[i] = static_cast<std::uint32_t>(columns.first[i] - base) * 0x00010001U + 0x80018000U;
  }
}

void make(const Axis& axis, ColumnTaps& columns) {
  const Positions positions(axis);
  const auto padded = (static_cast<std::size_t>(axis.outputs) + kRowFloats - 1) / kRowFloats * kRowFloats;
  columns.first.resize(padded);
  columns.weights.resize(padded);
  for (int i = 0; i < static_cast<int>(padded); ++i) {
    const std::int64_t at = positions[std::min(i, axis.outputs - 1)];
    // Rounded; a position on the last sample gives no weight to the one behind it.
    const auto second = static_cast<std::uint32_t>(
        (std::uint64_t{Positions::fraction(at)} * kWeights + (std::uint64_t{1} << 31)) >> 32);
    columns.first[static_cast<std::size_t>(i)] = Positions::sample(at);
    columns.weights[static_cast<std::size_t>(i)] = (kWeights - second) | second << 16;
  }
  columns.reach = Reach::kSingle;
  for (const std::size_t group : kGroups)
    if (fits(columns.first, group, kBytes)) {
      columns.reach = Reach::kBlocks;
      columns.group = group;
      columns.near = fits(columns.first, group, 32);
      return make_lookups(columns);
    }
}

#if HWY_TARGET == HWY_AVX3_DL
// A load of 32 bytes crosses a cache line half as often as one of 64.
template <bool kNear>
HWY_INLINE __m512i load_bytes(const std::uint8_t* at) {
  if constexpr (kNear) return _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
  return _mm512_loadu_si512(at);
}

template <std::size_t kGroup, bool kNear = false>
void resample_blocks(const std::uint8_t* samples, const ColumnTaps& columns, float* to) {
  constexpr std::size_t kLoads = 16 / kGroup;
  constexpr std::uint64_t kOutputs = kGroup == 16 ? ~std::uint64_t{0} : (std::uint64_t{1} << (4 * kGroup % 64)) - 1;
  constexpr std::uint64_t kSamples = 0x5555555555555555U & kOutputs;
  const std::size_t outputs = columns.first.size();
  const std::uint32_t* lookups = columns.lookups.data();
  const std::uint32_t* weights = columns.weights.data();
  const std::int32_t* base = columns.bases.data();
  for (std::size_t x = 0; x < outputs; x += 16, base += kLoads) {
    const __m512i lookup = _mm512_load_si512(lookups + x);
    __m512i pairs = _mm512_maskz_permutexvar_epi8(kSamples, lookup, load_bytes<kNear>(samples + base[0]));
    for (std::size_t i = 1; i < kLoads; ++i) {
      const __mmask64 part = kSamples << (4 * kGroup * i % 64);
      pairs = _mm512_mask_permutexvar_epi8(pairs, part, lookup, load_bytes<kNear>(samples + base[i]));
    }
    const __m512i sums = _mm512_madd_epi16(pairs, _mm512_load_si512(weights + x));
    _mm512_store_ps(to + x, _mm512_cvtepi32_ps(sums));
  }
}

void resample_by_blocks(const std::uint8_t* samples, const ColumnTaps& columns, float* to) {
  if (columns.group == 16 && columns.near) return resample_blocks<16, true>(samples, columns, to);
  if (columns.group == 16) return resample_blocks<16>(samples, columns, to);
  if (columns.group == 8) return resample_blocks<8>(samples, columns, to);
  resample_blocks<4>(samples, columns, to);
}
#elif HWY_TARGET != HWY_SCALAR
void resample_by_blocks(const std::uint8_t* samples, const ColumnTaps& columns, float* to) {
  const hn::Full128<std::uint8_t> bytes;
  const hn::Full128<std::int16_t> halves;
  const hn::Full128<std::int32_t> words;
  const hn::Full128<float> floats;
  const std::size_t outputs = columns.first.size();
  const auto* lookups = reinterpret_cast<const std::uint8_t*>(columns.lookups.data());
  const auto* weights = reinterpret_cast<const std::int16_t*>(columns.weights.data());
  const std::int32_t* base = columns.bases.data();
  for (std::size_t x = 0; x < outputs; x += 4, ++base) {
    const auto pairs = hn::TableLookupBytesOr0(hn::LoadU(bytes, samples + *base), hn::Load(bytes, lookups + 4 * x));
    const auto weight = hn::Load(halves, weights + 2 * x);
    auto odd = hn::Zero(words);
    const auto even = hn::ReorderWidenMulAccumulate(words, hn::BitCast(halves, pairs), weight, hn::Zero(words), odd);
    hn::Store(hn::ConvertTo(floats, hn::RearrangeToOddPlusEven(even, odd)), floats, to + x);
  }
}
#else
void resample_by_blocks(const std::uint8_t*, const ColumnTaps&, float*) {}
#endif

void resample(const std::uint8_t* samples, const ColumnTaps& columns, float* to) {
  if (columns.reach == Reach::kBlocks) return resample_by_blocks(samples, columns, to);
  const std::size_t outputs = columns.first.size();
  const std::int32_t* first = columns.first.data();
  const std::uint32_t* weights = columns.weights.data();
  for (std::size_t x = 0; x < outputs; ++x) {
    const std::uint8_t* at = samples + first[x];
    to[x] = static_cast<float>(at[0] * (weights[x] & 0xFFFF) + at[1] * (weights[x] >> 16));
  }
}

}  // namespace xoe::data::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace xoe::data {

HWY_EXPORT(make);
HWY_EXPORT(resample);

void make_columns(const Axis& axis, ColumnTaps& columns) { HWY_DYNAMIC_DISPATCH(make)(axis, columns); }

void resample_row(const std::uint8_t* samples, const ColumnTaps& columns, float* to) {
  HWY_DYNAMIC_DISPATCH(resample)(samples, columns, to);
}

}  // namespace xoe::data
#endif

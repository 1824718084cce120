// Horizontal interpolation: from the samples of a row to the output's columns.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "data/image/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/image/columns.cc"
#include "hwy/foreach_target.h"  // before highway.h: compiles this file once per instruction set
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xoe::data::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr auto kWeights = static_cast<std::uint32_t>(kWeightSum);
constexpr std::size_t kPairsAtOnce = 4;          // of one output, with Reach::kSingle
constexpr std::uint32_t kNextPair = 0x00020002;  // moves an entry of ColumnTaps::lookups

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
bool fits(const ColumnTaps& columns, std::size_t group, std::int32_t bytes) {
  const auto& first = columns.first;
  const auto taps = static_cast<std::int32_t>(2 * columns.pairs);
  for (std::size_t i = 0; i < first.size(); i += group)
    if (std::abs(first[i + group - 1] - first[i]) > bytes - taps) return false;
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

void choose_reach(ColumnTaps& columns) {
  columns.reach = Reach::kSingle;
  for (const std::size_t group : kGroups)
    if (fits(columns, group, kBytes)) {
      columns.reach = Reach::kBlocks;
      columns.group = group;
      columns.near = fits(columns, group, 32);
      return make_lookups(columns);
    }
}

void make(const Axis& axis, ColumnTaps& columns) {
  const Positions positions(axis);
  const auto padded = (static_cast<std::size_t>(axis.outputs) + kRowFloats - 1) / kRowFloats * kRowFloats;
  columns.pairs = 1;
  columns.weight_sum = kWeightSum;
  columns.overshoots = false;
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
  choose_reach(columns);
}

// Rounds sums of weights, not the weights, so that they add up to `whole`.
void round_weights(std::span<const float> weights, std::int32_t whole, std::span<std::int16_t> to) {
  float sum = 0;
  std::int32_t before = 0;
  for (std::size_t k = 0; k < weights.size(); ++k) {
    sum += weights[k];
    const std::int32_t now =
        k + 1 == weights.size() ? whole : static_cast<std::int32_t>(std::lrint(sum * static_cast<float>(whole)));
    to[k] = static_cast<std::int16_t>(now - before);
    before = now;
  }
}

void make_filtered(const FilterTaps& filter, const FilteredColumns& how, ColumnTaps& columns) {
  const std::size_t outputs = filter.outputs();
  const std::size_t padded = (outputs + kRowFloats - 1) / kRowFloats * kRowFloats;
  const auto source = [&](std::size_t i) {
    const std::size_t output = std::min(i, outputs - 1);
    return how.mirrored ? outputs - 1 - output : output;
  };
  // Only pairs in number may have negative weights.
  columns.pairs = std::max<std::size_t>(static_cast<std::size_t>(filter.most() + 1) / 2, how.overshoots ? 2 : 1);
  columns.overshoots = how.overshoots;
  // Where some weights are negative, others are above 1.
  columns.weight_sum = how.overshoots ? kWeightSum / 2 : kWeightSum;
  columns.first.resize(padded);
  for (std::size_t i = 0; i < padded; ++i) columns.first[i] = filter.first(source(i)) + how.origin;
  choose_reach(columns);
  if (columns.reach == Reach::kSingle && columns.pairs > 1)
    columns.pairs = (columns.pairs + kPairsAtOnce - 1) / kPairsAtOnce * kPairsAtOnce;
  const std::size_t pairs = columns.pairs;
  std::uint32_t* words = columns.weights.zeros(padded * pairs);
  std::vector<std::int16_t> rounded(2 * pairs);
  for (std::size_t i = 0; i < padded; ++i) {
    const auto weights = filter.weights(source(i));
    round_weights(weights, columns.weight_sum, rounded);
    std::fill(rounded.begin() + static_cast<std::ptrdiff_t>(weights.size()), rounded.end(), std::int16_t{0});
    const bool blocks = columns.reach == Reach::kBlocks;
    std::uint32_t* to = blocks ? words + i / kRowFloats * kRowFloats * pairs + i % kRowFloats : words + i * pairs;
    for (std::size_t k = 0; k < pairs; ++k)
      to[k * (blocks ? kRowFloats : 1)] = static_cast<std::uint16_t>(rounded[2 * k]) |
                                          std::uint32_t{static_cast<std::uint16_t>(rounded[2 * k + 1])} << 16;
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

// More than one pair of samples for each output.
template <std::size_t kGroup, bool kNear = false>
void filter_blocks(const std::uint8_t* samples, const ColumnTaps& columns, float* to) {
  constexpr std::size_t kLoads = 16 / kGroup;
  constexpr std::uint64_t kOutputs = kGroup == 16 ? ~std::uint64_t{0} : (std::uint64_t{1} << (4 * kGroup % 64)) - 1;
  constexpr std::uint64_t kSamples = 0x5555555555555555U & kOutputs;
  const std::size_t outputs = columns.first.size();
  const std::uint32_t* weights = columns.weights.data();
  const std::int32_t* base = columns.bases.data();
  const __m512i next = _mm512_set1_epi32(static_cast<int>(kNextPair));
  const __m512i least = _mm512_set1_epi32(columns.overshoots ? 0 : INT32_MIN);
  const __m512i most = _mm512_set1_epi32(columns.overshoots ? 255 * columns.weight_sum : INT32_MAX);
  for (std::size_t x = 0; x < outputs; x += 16, base += kLoads) {
    __m512i lookup = _mm512_load_si512(columns.lookups.data() + x);
    __m512i bytes[kLoads];
    for (std::size_t i = 0; i < kLoads; ++i) bytes[i] = load_bytes<kNear>(samples + base[i]);
    __m512i sums = _mm512_setzero_si512();
    for (std::size_t k = 0; k < columns.pairs; ++k, weights += 16) {
      __m512i pairs = _mm512_maskz_permutexvar_epi8(kSamples, lookup, bytes[0]);
      for (std::size_t i = 1; i < kLoads; ++i)
        pairs = _mm512_mask_permutexvar_epi8(pairs, kSamples << (4 * kGroup * i % 64), lookup, bytes[i]);
      sums = _mm512_add_epi32(sums, _mm512_madd_epi16(pairs, _mm512_load_si512(weights)));
      lookup = _mm512_add_epi32(lookup, next);
    }
    sums = _mm512_min_epi32(_mm512_max_epi32(sums, least), most);
    _mm512_store_ps(to + x, _mm512_cvtepi32_ps(sums));
  }
}

void filter_by_blocks(const std::uint8_t* samples, const ColumnTaps& columns, float* to) {
  if (columns.group == 16 && columns.near) return filter_blocks<16, true>(samples, columns, to);
  if (columns.group == 16) return filter_blocks<16>(samples, columns, to);
  if (columns.group == 8) return filter_blocks<8>(samples, columns, to);
  filter_blocks<4>(samples, columns, to);
}

void resample_by_blocks(const std::uint8_t* samples, const ColumnTaps& columns, float* to) {
  if (columns.pairs > 1) return filter_by_blocks(samples, columns, to);
  if (columns.group == 16 && columns.near) return resample_blocks<16, true>(samples, columns, to);
  if (columns.group == 16) return resample_blocks<16>(samples, columns, to);
  if (columns.group == 8) return resample_blocks<8>(samples, columns, to);
  resample_blocks<4>(samples, columns, to);
}
#elif HWY_TARGET != HWY_SCALAR
void filter_by_blocks(const std::uint8_t* samples, const ColumnTaps& columns, float* to) {
  const hn::Full128<std::uint8_t> bytes;
  const hn::Full128<std::int16_t> halves;
  const hn::Full128<std::int32_t> words;
  const hn::Full128<std::uint32_t> entries;
  const auto next = hn::Set(entries, kNextPair);
  const auto least = hn::Set(words, columns.overshoots ? 0 : INT32_MIN);
  const auto most = hn::Set(words, columns.overshoots ? 255 * columns.weight_sum : INT32_MAX);
  const std::int32_t* base = columns.bases.data();
  for (std::size_t x = 0; x < columns.first.size(); x += 4, ++base) {
    const auto near = hn::LoadU(bytes, samples + *base);
    const std::uint32_t* weights =
        columns.weights.data() + x / kRowFloats * kRowFloats * columns.pairs + x % kRowFloats;
    auto lookup = hn::Load(entries, columns.lookups.data() + x);
    auto odd = hn::Zero(words);
    auto even = hn::Zero(words);
    for (std::size_t k = 0; k < columns.pairs; ++k, weights += kRowFloats) {
      const auto pairs = hn::TableLookupBytesOr0(near, hn::BitCast(bytes, lookup));
      const auto weight = hn::BitCast(halves, hn::Load(entries, weights));
      even = hn::ReorderWidenMulAccumulate(words, hn::BitCast(halves, pairs), weight, even, odd);
      lookup = hn::Add(lookup, next);
    }
    const auto sums = hn::Min(hn::Max(hn::RearrangeToOddPlusEven(even, odd), least), most);
    hn::Store(hn::ConvertTo(hn::Full128<float>(), sums), hn::Full128<float>(), to + x);
  }
}

void resample_by_blocks(const std::uint8_t* samples, const ColumnTaps& columns, float* to) {
  if (columns.pairs > 1) return filter_by_blocks(samples, columns, to);
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

// The weighted sum of neighbouring samples, in 2 * kPairsAtOnce at a time.
#if HWY_TARGET == HWY_SCALAR
std::int32_t weigh(const std::uint8_t* samples, const std::uint32_t* weights, std::size_t pairs) {
  std::int32_t sum = 0;
  for (std::size_t k = 0; k < pairs; ++k)
    sum += samples[2 * k] * static_cast<std::int16_t>(weights[k]) +
           samples[2 * k + 1] * static_cast<std::int16_t>(weights[k] >> 16);
  return sum;
}
#else
std::int32_t weigh(const std::uint8_t* samples, const std::uint32_t* weights, std::size_t pairs) {
  const hn::Full128<std::int16_t> halves;
  const hn::Full128<std::int32_t> words;
  auto even = hn::Zero(words);
  auto odd = hn::Zero(words);
  for (std::size_t k = 0; k < pairs; k += kPairsAtOnce) {
    const auto near = hn::PromoteTo(halves, hn::LoadU(hn::Full64<std::uint8_t>(), samples + 2 * k));
    const auto weight = hn::BitCast(halves, hn::LoadU(hn::Full128<std::uint32_t>(), weights + k));
    even = hn::ReorderWidenMulAccumulate(words, near, weight, even, odd);
  }
  return hn::GetLane(hn::SumOfLanes(words, hn::Add(even, odd)));
}
#endif

void filter_one_by_one(const std::uint8_t* samples, const ColumnTaps& columns, float* to) {
  const std::int32_t least = columns.overshoots ? 0 : INT32_MIN;
  const std::int32_t most = columns.overshoots ? 255 * columns.weight_sum : INT32_MAX;
  const std::uint32_t* weights = columns.weights.data();
  for (std::size_t x = 0; x < columns.first.size(); ++x, weights += columns.pairs) {
    const std::int32_t sum = weigh(samples + columns.first[x], weights, columns.pairs);
    to[x] = static_cast<float>(std::clamp(sum, least, most));
  }
}

void resample(const std::uint8_t* samples, const ColumnTaps& columns, float* to) {
  if (columns.reach == Reach::kBlocks) return resample_by_blocks(samples, columns, to);
  if (columns.pairs > 1) return filter_one_by_one(samples, columns, to);
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
HWY_EXPORT(make_filtered);
HWY_EXPORT(resample);

void make_columns(const Axis& axis, ColumnTaps& columns) { HWY_DYNAMIC_DISPATCH(make)(axis, columns); }

void make_columns(const FilterTaps& filter, const FilteredColumns& how, ColumnTaps& columns) {
  HWY_DYNAMIC_DISPATCH(make_filtered)(filter, how, columns);
}

void resample_row(const std::uint8_t* samples, const ColumnTaps& columns, float* to) {
  HWY_DYNAMIC_DISPATCH(resample)(samples, columns, to);
}

}  // namespace xoe::data
#endif

// The vector code of resizing, dispatched to the processor's instruction set. Rows of floats start at addresses that
// are multiples of 64 and can be written and read up to a multiple of kRowFloats.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "data/image/aligned.h"
#include "data/image/taps.h"
#include "xoe/tensor.h"

namespace xoe::data {

inline constexpr std::size_t kRowFloats = 16;
inline constexpr std::int32_t kWeightSum = 32767;  // the largest weight of 16 bits

// How an instruction set gathers the samples of a row.
enum class Reach : std::uint8_t {
  kBlocks,  // one load and permutations of its bytes for a group of neighbouring outputs
  kSingle,  // each output by itself: the samples lie too far apart
};

// Samples are weighted in pairs, whose two weights of 16 bits lie in one word.
struct ColumnTaps {
  Reach reach = Reach::kSingle;
  std::size_t group = 0;  // outputs that share a load
  bool near = false;      // the group lies within 32 bytes
  std::size_t pairs = 1;  // of each output; with kSingle and more than one, a multiple of 4
  std::int32_t weight_sum = kWeightSum;
  bool overshoots = false;  // results may lie outside of 0 to 255, and are clamped
  AlignedArray<std::int32_t> first;
  // kBlocks: pair k of outputs i to i + kRowFloats - 1 is at (i * pairs) + k * kRowFloats. kSingle: at i * pairs + k.
  AlignedArray<std::uint32_t> weights;
  AlignedArray<std::int32_t> bases;     // of each group
  AlignedArray<std::uint32_t> lookups;  // four bytes each: the offsets of first and second from the group's base
};

// `axis` counts from the first sample of the rows that will be resampled.
void make_columns(const Axis& axis, ColumnTaps& columns);

// `filter` counts its samples from number `origin` of those rows. `mirrored`: outputs count from the other end.
struct FilteredColumns {
  int origin = 0;
  bool mirrored = false;
  bool overshoots = false;
};
void make_columns(const FilterTaps& filter, const FilteredColumns& how, ColumnTaps& columns);

// Interpolates the samples at the output's columns, times columns.weight_sum. May read kRowSlack bytes behind the row.
void resample_row(const std::uint8_t* samples, const ColumnTaps& columns, float* to);

// For each of up to three planes, the two resampled rows around an output row and their weights.
struct RowPairs {
  std::size_t planes = 3;
  std::array<const float*, 3> above;
  std::array<const float*, 3> below;
  std::array<float, 3> above_weight;
  std::array<float, 3> below_weight;
};

// The weighted sum of `count` resampled rows, added up from the first to the last. `floats` is a multiple of
// kRowFloats.
void sum_rows(const float* const* rows, const float* weights, std::size_t count, float* to, std::size_t floats);

// level * scale + shift, for each channel.
struct Normalisation {
  std::array<float, 3> scale = {1, 1, 1};
  std::array<float, 3> shift = {};
};

// Output rows of `count` floats, at least kRowFloats, of which exactly `count` are written. `past_cache` writes
// straight to memory, for rows that are not read soon; then addresses and sizes of rows are multiples of 64 bytes, and
// flush_rows() must be called before another thread reads them.
struct RowsTo {
  std::array<float*, 3> row = {};
  std::size_t count = 0;
  bool past_cache = false;
};

// row[p][x] = above * its weight + below * its weight + shift[p].
void blend(const RowPairs& rows, const std::array<float, 3>& shift, const RowsTo& to);

// The same for weights that can leave 0 to 255: clamps to that, then normalises.
void blend_clamped(const RowPairs& rows, const Normalisation& to_network, const RowsTo& to);

// The sum of three planes: the brightness of RGB.
void blend_sum(const RowPairs& rows, float shift, const RowsTo& to);
void blend_sum_clamped(const RowPairs& rows, const Normalisation& to_network, const RowsTo& to);

// Blends rows of Y, Cb and Cr and converts them to red, green and blue within 0 to 255, normalised.
void blend_ycc(const RowPairs& rows, const Normalisation& to_network, const RowsTo& to);

// Copies past the cache. Both addresses and `bytes` are multiples of 64.
void move_row(const void* from, void* to, std::size_t bytes);
void flush_rows();

// Converts to the nearest value of `dtype` (float32, float16, bfloat16, uint8).
void store_plane(const float* row, DType dtype, void* to, std::size_t count);
// The same for three planes, interleaved to pixels.
void store_pixels(const std::array<const float*, 3>& rows, DType dtype, void* to, std::size_t count);

// Splits RGB, RGB, ... into three rows.
void deinterleave(const std::uint8_t* pixels, const std::array<std::uint8_t*, 3>& to, std::size_t count);

}  // namespace xoe::data

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
inline constexpr float kWeightSum = 32767;  // what stretch_row() multiplies samples with

// How an instruction set finds the samples of a row.
enum class Reach : std::uint8_t {
  kBlocks,  // a group of neighbouring outputs by one load and a permutation of its bytes
  kSingle,  // each output by itself: they lie too far apart
};

struct ColumnTaps {
  Reach reach = Reach::kSingle;
  std::size_t group = 0;  // outputs that share a load
  bool near = false;      // and lie within 32 bytes
  AlignedArray<std::int32_t> first;
  AlignedArray<std::uint32_t> weights;  // of first and second sample, 16 bits each
  AlignedArray<std::int32_t> bases;     // of each group
  AlignedArray<std::uint32_t> lookups;  // four bytes each: where, from the group's base, first and second are found
};

// `axis` counts from the first sample of the rows that are to be stretched.
void make_columns(const Axis& axis, ColumnTaps& columns);

// The samples at the output's columns, times kWeightSum. May read kRowSlack bytes behind the row.
void stretch_row(const std::uint8_t* samples, const ColumnTaps& columns, float* to);

// For each of up to three planes the two stretched rows around an output row, and their shares in it.
struct RowPairs {
  std::size_t planes = 3;
  std::array<const float*, 3> above;
  std::array<const float*, 3> below;
  std::array<float, 3> above_weight;
  std::array<float, 3> below_weight;
};

// What becomes of a level in each channel.
struct Normalisation {
  std::array<float, 3> scale = {1, 1, 1};
  std::array<float, 3> shift = {};
};

// Where rows of floats go: `count` of at least kRowFloats each, written to the element. `past_cache`: straight to
// memory, for what nobody reads soon; the addresses and the rows' bytes are multiples of 64 then, and flush_rows()
// comes before another thread reads.
struct RowsTo {
  std::array<float*, 3> row = {};
  std::size_t count = 0;
  bool past_cache = false;
};

// row[p][x] = above * its weight + below * its weight + shift[p].
void blend(const RowPairs& rows, const std::array<float, 3>& shift, const RowsTo& to);

// The same for three planes into one sum: the brightness of RGB.
void blend_sum(const RowPairs& rows, float shift, const RowsTo& to);

// Y, Cb and Cr rows, each blended, to red, green and blue within 0 to 255, normalised.
void blend_ycc(const RowPairs& rows, const Normalisation& to_network, const RowsTo& to);

// Copies past the cache; both addresses and `bytes` are multiples of 64.
void move_row(const void* from, void* to, std::size_t bytes);
void flush_rows();

// Converts to the nearest value of `dtype` (float32, float16, bfloat16, uint8).
void store_plane(const float* row, DType dtype, void* to, std::size_t count);
// Three planes to pixels.
void store_pixels(const std::array<const float*, 3>& rows, DType dtype, void* to, std::size_t count);

// RGB, RGB, ... to three rows.
void part_pixels(const std::uint8_t* pixels, const std::array<std::uint8_t*, 3>& to, std::size_t count);

}  // namespace xoe::data

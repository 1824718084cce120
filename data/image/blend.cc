// Vertical interpolation: from resampled rows to rows of the output.
#include <algorithm>

#include "data/image/kernels.h"
#include "hwy/cache_control.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/image/blend.cc"
#include "hwy/foreach_target.h"  // before highway.h: compiles this file once per instruction set
#include "hwy/highway.h"

// Products and sums round one by one (Mul and Add, never MulAdd), so that every processor makes the same pixels.
HWY_BEFORE_NAMESPACE();
namespace xoe::data::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using V = hn::Vec<Floats>;

// A short row ends in the padding; a long one repeats some columns, which costs less than a tail.
HWY_INLINE std::size_t last_vector(std::size_t count) {
  const std::size_t lanes = hn::Lanes(Floats());
  return count < lanes ? 0 : count - lanes;
}

class Blend {
 public:
  HWY_INLINE Blend(const RowPairs& rows, std::size_t plane)
      : above_(rows.above[plane]),
        below_(rows.below[plane]),
        above_weight_(hn::Set(Floats(), rows.above_weight[plane])),
        below_weight_(hn::Set(Floats(), rows.below_weight[plane])) {}

  HWY_INLINE V at(std::size_t x) const {
    return hn::Add(hn::Mul(hn::LoadU(Floats(), above_ + x), above_weight_),
                   hn::Mul(hn::LoadU(Floats(), below_ + x), below_weight_));
  }

 private:
  const float* above_;
  const float* below_;
  V above_weight_;
  V below_weight_;
};

template <bool kPastCache>
HWY_INLINE void store(V v, float* to) {
  if constexpr (kPastCache) {
    hn::Stream(v, Floats(), to);
  } else {
    hn::StoreU(v, Floats(), to);
  }
}

template <bool kPastCache>
void planes_to(const RowPairs& rows, const std::array<float, 3>& shift, const RowsTo& to) {
  const std::size_t last = last_vector(to.count);
  for (std::size_t p = 0; p < rows.planes; ++p) {
    const Blend blended(rows, p);
    const V shifts = hn::Set(Floats(), shift[p]);
    float* row = to.row[p];
    for (std::size_t x = 0; x < to.count; x += hn::Lanes(Floats())) {
      const std::size_t at = std::min(x, last);
      store<kPastCache>(hn::Add(blended.at(at), shifts), row + at);
    }
  }
}

void planes(const RowPairs& rows, const std::array<float, 3>& shift, const RowsTo& to) {
  to.past_cache ? planes_to<true>(rows, shift, to) : planes_to<false>(rows, shift, to);
}

void sum(const RowPairs& rows, float shift, const RowsTo& to) {
  const Blend a(rows, 0);
  const Blend b(rows, 1);
  const Blend c(rows, 2);
  const V shifts = hn::Set(Floats(), shift);
  const std::size_t last = last_vector(to.count);
  for (std::size_t x = 0; x < to.count; x += hn::Lanes(Floats())) {
    const std::size_t at = std::min(x, last);
    store<false>(hn::Add(hn::Add(hn::Add(a.at(at), b.at(at)), c.at(at)), shifts), to.row[0] + at);
  }
}

class ToNetwork {
 public:
  HWY_INLINE ToNetwork(const Normalisation& values, std::size_t channel)
      : scale_(hn::Set(Floats(), values.scale[channel])), shift_(hn::Set(Floats(), values.shift[channel])) {}
  HWY_INLINE V operator()(V level) const {
    const V within = hn::Min(hn::Max(level, hn::Zero(Floats())), hn::Set(Floats(), 255));
    return hn::Add(hn::Mul(within, scale_), shift_);
  }

 private:
  V scale_;
  V shift_;
};

template <bool kPastCache>
void clamped_to(const RowPairs& rows, const Normalisation& to_network, const RowsTo& to) {
  const std::size_t last = last_vector(to.count);
  for (std::size_t p = 0; p < rows.planes; ++p) {
    const Blend blended(rows, p);
    const ToNetwork out(to_network, p);
    for (std::size_t x = 0; x < to.count; x += hn::Lanes(Floats())) {
      const std::size_t at = std::min(x, last);
      store<kPastCache>(out(blended.at(at)), to.row[p] + at);
    }
  }
}

void clamped(const RowPairs& rows, const Normalisation& to_network, const RowsTo& to) {
  to.past_cache ? clamped_to<true>(rows, to_network, to) : clamped_to<false>(rows, to_network, to);
}

void clamped_sum(const RowPairs& rows, const Normalisation& to_network, const RowsTo& to) {
  const Blend a(rows, 0);
  const Blend b(rows, 1);
  const Blend c(rows, 2);
  const ToNetwork out(to_network, 0);
  const std::size_t last = last_vector(to.count);
  for (std::size_t x = 0; x < to.count; x += hn::Lanes(Floats())) {
    const std::size_t at = std::min(x, last);
    store<false>(out(hn::Add(hn::Add(a.at(at), b.at(at)), c.at(at))), to.row[0] + at);
  }
}

// Several vectors at once, so that a row's address and weight are read once for them.
template <std::size_t kVectors>
HWY_INLINE void sum_at(const float* const* rows, const float* weights, std::size_t count, float* to, std::size_t x) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  V sums[kVectors];
  const V first = hn::Set(d, weights[0]);
  for (std::size_t v = 0; v < kVectors; ++v) sums[v] = hn::Mul(hn::Load(d, rows[0] + x + v * lanes), first);
  for (std::size_t i = 1; i < count; ++i) {
    const V weight = hn::Set(d, weights[i]);
    const float* row = rows[i] + x;
    for (std::size_t v = 0; v < kVectors; ++v)
      sums[v] = hn::Add(sums[v], hn::Mul(hn::Load(d, row + v * lanes), weight));
  }
  for (std::size_t v = 0; v < kVectors; ++v) hn::Store(sums[v], d, to + x + v * lanes);
}

void sums(const float* const* rows, const float* weights, std::size_t count, float* to, std::size_t floats) {
  constexpr std::size_t kVectors = 4;
  const std::size_t lanes = hn::Lanes(Floats());
  std::size_t x = 0;
  for (; x + kVectors * lanes <= floats; x += kVectors * lanes) sum_at<kVectors>(rows, weights, count, to, x);
  for (; x < floats; x += lanes) sum_at<1>(rows, weights, count, to, x);
}

template <bool kPastCache>
void ycc_to(const RowPairs& rows, const Normalisation& to_network, const RowsTo& to) {
  const Floats d;
  const Blend luma(rows, 0);
  const Blend blue(rows, 1);
  const Blend red(rows, 2);
  const ToNetwork out[3] = {{to_network, 0}, {to_network, 1}, {to_network, 2}};
  const V centre = hn::Set(d, 128);
  const std::size_t last = last_vector(to.count);
  for (std::size_t x = 0; x < to.count; x += hn::Lanes(d)) {
    const std::size_t at = std::min(x, last);
    const V y = luma.at(at);
    const V cb = hn::Sub(blue.at(at), centre);
    const V cr = hn::Sub(red.at(at), centre);
    // ITU-T T.871: BT.601 with the full range.
    const V green = hn::Add(hn::Mul(cb, hn::Set(d, 0.344136286F)), hn::Mul(cr, hn::Set(d, 0.714136286F)));
    store<kPastCache>(out[0](hn::Add(y, hn::Mul(cr, hn::Set(d, 1.402F)))), to.row[0] + at);
    store<kPastCache>(out[1](hn::Sub(y, green)), to.row[1] + at);
    store<kPastCache>(out[2](hn::Add(y, hn::Mul(cb, hn::Set(d, 1.772F)))), to.row[2] + at);
  }
}

void ycc(const RowPairs& rows, const Normalisation& to_network, const RowsTo& to) {
  to.past_cache ? ycc_to<true>(rows, to_network, to) : ycc_to<false>(rows, to_network, to);
}

void move_past_cache(const void* from, void* to, std::size_t bytes) {
  for (std::size_t x = 0; x < bytes / sizeof(float); x += hn::Lanes(Floats()))
    store<true>(hn::Load(Floats(), static_cast<const float*>(from) + x), static_cast<float*>(to) + x);
}

}  // namespace xoe::data::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace xoe::data {

HWY_EXPORT(planes);
HWY_EXPORT(sum);
HWY_EXPORT(clamped);
HWY_EXPORT(clamped_sum);
HWY_EXPORT(sums);
HWY_EXPORT(ycc);
HWY_EXPORT(move_past_cache);

void blend(const RowPairs& rows, const std::array<float, 3>& shift, const RowsTo& to) {
  HWY_DYNAMIC_DISPATCH(planes)(rows, shift, to);
}

void blend_sum(const RowPairs& rows, float shift, const RowsTo& to) { HWY_DYNAMIC_DISPATCH(sum)(rows, shift, to); }

void blend_clamped(const RowPairs& rows, const Normalisation& to_network, const RowsTo& to) {
  HWY_DYNAMIC_DISPATCH(clamped)(rows, to_network, to);
}

void blend_sum_clamped(const RowPairs& rows, const Normalisation& to_network, const RowsTo& to) {
  HWY_DYNAMIC_DISPATCH(clamped_sum)(rows, to_network, to);
}

void sum_rows(const float* const* rows, const float* weights, std::size_t count, float* to, std::size_t floats) {
  HWY_DYNAMIC_DISPATCH(sums)(rows, weights, count, to, floats);
}

void blend_ycc(const RowPairs& rows, const Normalisation& to_network, const RowsTo& to) {
  HWY_DYNAMIC_DISPATCH(ycc)(rows, to_network, to);
}

void move_row(const void* from, void* to, std::size_t bytes) { HWY_DYNAMIC_DISPATCH(move_past_cache)(from, to, bytes); }

void flush_rows() { hwy::FlushStream(); }

}  // namespace xoe::data
#endif

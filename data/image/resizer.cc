#include "data/image/resizer.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace xoe::data {
namespace {

// Initial rows of a ring, which grows when planes arrive further apart. Small, so that it stays in the first-level
// cache.
constexpr std::size_t kRowWise = 4;     // RGB comes row by row
constexpr std::size_t kBlockRows = 16;  // YCC in blocks of at most so many rows

// A target of at least this many bytes is written past the cache: it is part of a batch that is not read before it is
// full.
constexpr std::size_t kLargeTarget = std::size_t{1} << 17;
constexpr std::array<float, 3> kLuma = {0.299F, 0.587F, 0.114F};  // BT.601

// From pixels to samples of a plane that has one for every `pixels` pixels. `needed` and `window` are [first, end) of
// the pixels that may be read, and of the samples that rows carry.
Axis make_axis(double start, double extent, int pixels, std::pair<int, int> needed, std::pair<int, int> window) {
  const auto sample_at = [pixels](double pixel) { return (pixel + 0.5) / pixels - 0.5; };
  Axis axis;
  axis.start = start / pixels;
  axis.extent = extent / pixels;
  const double last = window.second - 1;
  axis.low = std::clamp(sample_at(needed.first), 1.0 * window.first, last);
  axis.high = std::clamp(sample_at(needed.second - 1), axis.low, last);
  return axis;
}

// One direction of a crop: the limits, resized to `resized` pixels, of which the target's begin at `skipped`.
struct Side {
  double start = 0;  // of the region
  double extent = 0;
  int limit_begin = 0;
  int limit_end = 0;
  int resized = 0;  // 0: the region becomes the target
  int skipped = 0;
};

Side across(const Crop& crop) {
  return {crop.region.x, crop.region.width, crop.limits.x, crop.limits.right(), crop.resized.width, crop.resized.x};
}
Side down(const Crop& crop) {
  return {crop.region.y, crop.region.height, crop.limits.y, crop.limits.bottom(), crop.resized.height, crop.resized.y};
}

// Whether the two samples around each output are not enough.
bool needs_filter(const Resampling& resampling, const Side& side, int outputs) {
  if (resampling.interpolation != Interpolation::kBilinear) return true;
  return resampling.antialias && side.extent > outputs;
}

// `window` is [first, end) of the samples that rows carry. Samples are counted from the first one of the limits, which
// `origin` becomes.
FilterAxis filter_axis(const Side& side, int outputs, int pixels, std::pair<int, int> window, int& origin) {
  origin = side.limit_begin / pixels;
  FilterAxis axis;
  axis.outputs = outputs;
  axis.blur = pixels == 1 ? 0 : 1;
  axis.begin = std::max(0, window.first - origin);
  axis.end = std::min((side.limit_end + pixels - 1) / pixels, window.second) - origin;
  axis.base = static_cast<double>(side.limit_begin) / pixels - origin;
  if (side.resized > 0) {
    axis.scale = static_cast<double>(side.limit_end - side.limit_begin) / side.resized / pixels;
    axis.skipped = side.skipped;
  } else {
    axis.scale = side.extent / outputs / pixels;
    axis.base += (side.start - side.limit_begin) / pixels;
  }
  return axis;
}

}  // namespace

bool Resizer::supports(DType dtype) noexcept {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBfloat16 || dtype == DType::kUint8;
}

void Resizer::prepare(const Crop& crop, const Target& target) {
  crop_ = crop;
  target_ = target;
  planes_ = 0;
  next_ = 0;
  stride_ = (static_cast<std::size_t>(target.width) + kRowFloats - 1) / kRowFloats * kRowFloats;
  to_network_ = {};
  if (target.dtype != DType::kUint8)
    for (std::size_t c = 0; c < 3; ++c) {
      to_network_.scale[c] = 1 / (255 * target.deviation[c]);
      to_network_.shift[c] = -target.mean[c] / target.deviation[c];
    }
  finished_.resize(3, stride_);
  sums_.resize(3, stride_);
  row_bytes_ = static_cast<std::size_t>(target.width) * dtype_size(target.dtype) * (by_channel() ? 1 : 3);
  const std::size_t bytes = row_bytes_ * static_cast<std::size_t>(target.height) *
                            static_cast<std::size_t>(by_channel() ? target.channels : 1);
  past_cache_ = bytes >= kLargeTarget && row_bytes_ % 64 == 0 && reinterpret_cast<std::uintptr_t>(target.to) % 64 == 0;
  converted_.resize(row_bytes_);
}

int Resizer::used_planes(Colour colour) const noexcept {
  if (colour == Colour::kGrey) return 1;
  return colour == Colour::kYcc && target_.channels == 1 ? 1 : 3;
}

void Resizer::start(const PlaneLayout& layout, const std::array<PixelRect, 3>& window) {
  layout_ = layout;
  planes_ = used_planes(layout.colour);
  next_ = 0;
  for (int p = 0; p < planes_; ++p) {
    const auto i = static_cast<std::size_t>(p);
    std::size_t same = 0;
    while (same < i && (layout.across[same] != layout.across[i] || layout.down[same] != layout.down[i] ||
                        window[same] != window[i]))
      ++same;
    if (same == i) make_geometry(p, window[i]);
    sources_[i].geometry = &geometries_[same];
    sources_[i].taken = 0;
    sources_[i].ready = 0;
    const std::size_t together =
        layout.colour == Colour::kYcc ? kBlockRows / static_cast<std::size_t>(layout.down[i]) : 0;
    sources_[i].ring.resize(together + kRowWise + sources_[i].geometry->rows.most, stride_);
  }
}

void Resizer::make_geometry(int plane, const PixelRect& window) {
  make_columns_of(plane, window);
  make_rows_of(plane, window);
}

void Resizer::make_columns_of(int plane, const PixelRect& window) {
  const auto i = static_cast<std::size_t>(plane);
  ColumnTaps& columns = geometries_[i].columns;
  const int pixels = layout_.across[i];
  if (const Side side = across(crop_); needs_filter(crop_.resampling, side, target_.width)) {
    int origin = 0;
    filter_.make(filter_axis(side, target_.width, pixels, {window.x, window.right()}, origin), crop_.resampling);
    return make_columns(filter_, {origin - window.x, target_.flip, overshoots()}, columns);
  }
  const PixelRect needed = needed_pixels(crop_);
  Axis axis =
      make_axis(crop_.region.x, crop_.region.width, pixels, {needed.x, needed.right()}, {window.x, window.right()});
  axis.outputs = target_.width;
  axis.mirrored = target_.flip;
  axis.start -= window.x;  // rows begin there
  axis.low -= window.x;
  axis.high -= window.x;
  make_columns(axis, columns);
}

void Resizer::make_rows_of(int plane, const PixelRect& window) {
  const auto i = static_cast<std::size_t>(plane);
  RowPlan& rows = geometries_[i].rows;
  const int pixels = layout_.down[i];
  if (const Side side = down(crop_); needs_filter(crop_.resampling, side, target_.height)) {
    int origin = 0;
    filter_.make(filter_axis(side, target_.height, pixels, {window.y, window.bottom()}, origin), crop_.resampling);
    return rows.make(filter_, origin);
  }
  const PixelRect needed = needed_pixels(crop_);
  Axis axis =
      make_axis(crop_.region.y, crop_.region.height, pixels, {needed.y, needed.bottom()}, {window.y, window.bottom()});
  axis.outputs = target_.height;
  rows.make(axis);
}

void Resizer::row(int plane, int y, const std::uint8_t* samples) {
  if (plane >= planes_) return;
  Plane& source = sources_[static_cast<std::size_t>(plane)];
  const RowPlan& plan = source.geometry->rows;
  if (source.taken == plan.rows.size() || plan.rows[source.taken] != y) return;
  make_room(source);
  resample_row(samples, source.geometry->columns, source.ring.row(source.taken % source.ring.rows()));
  ++source.taken;
  const auto height = static_cast<std::size_t>(target_.height);
  auto ready = static_cast<std::size_t>(source.ready);
  while (ready < height && plan.taps[ready].end() <= source.taken) ++ready;
  source.ready = static_cast<int>(ready);
  int end = source.ready;
  for (int p = 0; p < planes_; ++p) end = std::min(end, sources_[static_cast<std::size_t>(p)].ready);
  if (next_ == end) return;
  for (; next_ < end; ++next_) write_row();
  if (past_cache_ && complete()) flush_rows();
}

// Doubles the ring when its oldest row is still needed.
void Resizer::make_room(Plane& plane) {
  const std::size_t oldest = plane.geometry->rows.taps[static_cast<std::size_t>(next_)].first;
  const std::size_t size = plane.ring.rows();
  if (plane.taken < oldest + size) return;
  FloatRows larger;
  larger.resize(2 * size, stride_);
  for (std::size_t i = oldest; i < plane.taken; ++i)
    std::memcpy(larger.row(i % (2 * size)), plane.ring.row(i % size), stride_ * sizeof(float));
  plane.ring = std::move(larger);
}

// The two rows around the target's next row, for `count` channels; a grey plane serves all of them. Of more than two,
// all but the last are added up first.
RowPairs Resizer::find_rows(std::size_t count, const std::array<float, 3>& scale) {
  RowPairs rows;
  rows.planes = count;
  std::array<float, 2> weights = {};
  for (std::size_t c = 0; c < count; ++c) {
    const Plane& plane = sources_[planes_ == 1 ? 0 : c];
    if (c == 0 || planes_ > 1) {
      const RowPlan& plan = plane.geometry->rows;
      const RowTaps& taps = plan.taps[static_cast<std::size_t>(next_)];
      const float* weight = plan.weights.data() + taps.weights;
      const std::size_t size = plane.ring.rows();
      rows.above[c] = plane.ring.row(taps.first % size);
      rows.below[c] = plane.ring.row((taps.end() - 1) % size);
      weights = {weight[0], taps.count > 1 ? weight[taps.count - 1] : 0};
      if (taps.count > 2) {
        add_up(plane, taps, sums_.row(c));
        rows.above[c] = sums_.row(c);
        weights[0] = 1;
      }
    } else {
      rows.above[c] = rows.above[0];
      rows.below[c] = rows.below[0];
    }
    const float unit = scale[c] * (1 / static_cast<float>(plane.geometry->columns.weight_sum));
    rows.above_weight[c] = weights[0] * unit;
    rows.below_weight[c] = weights[1] * unit;
  }
  return rows;
}

void Resizer::add_up(const Plane& plane, const RowTaps& taps, float* to) {
  const std::size_t size = plane.ring.rows();
  summands_.clear();
  std::size_t at = taps.first % size;
  for (std::uint32_t i = 0; i + 1 < taps.count; ++i) {
    summands_.push_back(plane.ring.row(at));
    if (++at == size) at = 0;
  }
  sum_rows(summands_.data(), plane.geometry->rows.weights.data() + taps.weights, summands_.size(), to, stride_);
}

// Writes one row of each channel.
void Resizer::fill_rows(const std::array<float*, 3>& row, bool past_cache) {
  const RowsTo to{row, static_cast<std::size_t>(target_.width), past_cache};
  const auto channels = static_cast<std::size_t>(target_.channels);
  constexpr std::array<float, 3> kLevels = {1, 1, 1};
  if (layout_.colour == Colour::kYcc && channels == 3) return blend_ycc(find_rows(3, kLevels), to_network_, to);
  if (layout_.colour == Colour::kRgb && channels == 1) {
    if (overshoots()) return blend_sum_clamped(find_rows(3, kLuma), to_network_, {row, to.count, false});
    const float scale = to_network_.scale[0];
    const RowPairs rows = find_rows(3, {kLuma[0] * scale, kLuma[1] * scale, kLuma[2] * scale});
    return blend_sum(rows, to_network_.shift[0], {row, to.count, false});
  }
  if (overshoots()) return blend_clamped(find_rows(channels, kLevels), to_network_, to);
  blend(find_rows(channels, to_network_.scale), to_network_.shift, to);
}

// Converts a row; past the cache by way of `converted_`.
template <class Convert>
void Resizer::store_converted(std::uint8_t* to, const Convert& convert) {
  if (!past_cache_) return convert(to);
  convert(static_cast<void*>(converted_.data()));
  move_row(converted_.data(), to, row_bytes_);
}

void Resizer::write_row() {
  const auto width = static_cast<std::size_t>(target_.width);
  const auto y = static_cast<std::size_t>(next_);
  const std::size_t plane = width * static_cast<std::size_t>(target_.height);
  if (by_channel() && target_.dtype == DType::kFloat32 && width >= kRowFloats) {
    float* to = static_cast<float*>(target_.to) + y * width;
    return target_.channels == 1 ? fill_rows({to, to, to}, past_cache_)
                                 : fill_rows({to, to + plane, to + 2 * plane}, past_cache_);
  }
  const std::array<float*, 3> rows = {finished_.row(0), finished_.row(1), finished_.row(2)};
  fill_rows(rows, false);
  auto* to = static_cast<std::uint8_t*>(target_.to) + y * row_bytes_;
  if (!by_channel())
    return store_converted(to, [&](void* at) { store_pixels({rows[0], rows[1], rows[2]}, target_.dtype, at, width); });
  for (std::size_t c = 0; c < static_cast<std::size_t>(target_.channels); ++c)
    store_converted(to + c * plane * dtype_size(target_.dtype),
                    [&](void* at) { store_plane(rows[c], target_.dtype, at, width); });
}

}  // namespace xoe::data

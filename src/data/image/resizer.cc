#include "data/image/resizer.h"

#include <cstring>

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
    sources_[i].ring.resize(together + kRowWise, stride_);
  }
}

void Resizer::make_geometry(int plane, const PixelRect& window) {
  const auto i = static_cast<std::size_t>(plane);
  const PixelRect needed = needed_pixels(crop_);
  Axis across = make_axis(crop_.region.x, crop_.region.width, layout_.across[i], {needed.x, needed.right()},
                          {window.x, window.right()});
  across.outputs = target_.width;
  across.mirrored = target_.flip;
  across.start -= window.x;  // rows begin there
  across.low -= window.x;
  across.high -= window.x;
  make_columns(across, geometries_[i].columns);
  Axis down = make_axis(crop_.region.y, crop_.region.height, layout_.down[i], {needed.y, needed.bottom()},
                        {window.y, window.bottom()});
  down.outputs = target_.height;
  geometries_[i].rows.make(down);
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
  while (ready < height && plan.taps[ready].second < source.taken) ++ready;
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

// The rows around the target's next row, for `count` channels; a grey plane serves all of them.
RowPairs Resizer::find_rows(std::size_t count, const std::array<float, 3>& scale) const noexcept {
  RowPairs rows;
  rows.planes = count;
  for (std::size_t c = 0; c < count; ++c) {
    const Plane& plane = sources_[planes_ == 1 ? 0 : c];
    const RowTap& tap = plane.geometry->rows.taps[static_cast<std::size_t>(next_)];
    const float unit = scale[c] * (1 / kWeightSum);
    rows.above[c] = plane.ring.row(tap.first % plane.ring.rows());
    rows.below[c] = plane.ring.row(tap.second % plane.ring.rows());
    rows.above_weight[c] = (1 - tap.weight) * unit;
    rows.below_weight[c] = tap.weight * unit;
  }
  return rows;
}

// Writes one row of each channel.
void Resizer::fill_rows(const std::array<float*, 3>& row, bool past_cache) {
  const RowsTo to{row, static_cast<std::size_t>(target_.width), past_cache};
  const auto channels = static_cast<std::size_t>(target_.channels);
  if (layout_.colour == Colour::kYcc && channels == 3) return blend_ycc(find_rows(3, {1, 1, 1}), to_network_, to);
  if (layout_.colour == Colour::kRgb && channels == 1) {
    const float scale = to_network_.scale[0];
    const RowPairs rows = find_rows(3, {kLuma[0] * scale, kLuma[1] * scale, kLuma[2] * scale});
    return blend_sum(rows, to_network_.shift[0], {row, to.count, false});
  }
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

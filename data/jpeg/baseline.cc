#include "data/jpeg/baseline.h"

#include <algorithm>

#include "data/jpeg/idct.h"

namespace xoe::data::jpeg {
namespace {

// Bytes before the first sample of a row, for the one that upsampling reads there, and after the last, for vectors.
constexpr std::size_t kRowLead = 64;
constexpr std::size_t kRowTail = 128;

std::size_t size(int count) { return static_cast<std::size_t>(count); }

struct Span {
  int begin = 0;
  int end = 0;
};

Span chroma_span(int begin, int end, int factor, int pixels) {
  if (factor == 1) return {begin, end};
  return {std::max(begin / 2 - 1, 0), std::min((end - 1) / 2 + 2, (pixels + 1) / 2)};
}

Sampling sampling_of(const Frame& frame) {
  if (frame.across() == 1) return frame.down() == 1 ? Sampling::kFull : Sampling::kHalfDown;
  return frame.down() == 1 ? Sampling::kHalfAcross : Sampling::kQuarter;
}

}  // namespace

DecodeArea area_of(const PixelRect& window, Colour colour, int width, int height, int across, int down) {
  const Span x = chroma_span(window.x, window.right(), across, width);
  const Span y = chroma_span(window.y, window.bottom(), down, height);
  DecodeArea area;
  area.samples.fill(window);
  if (colour == Colour::kYcc)
    for (const std::size_t p : {1U, 2U}) area.samples[p] = {x.begin, y.begin, x.end - x.begin, y.end - y.begin};
  area.left = x.begin / 8;
  area.right = (x.end + 7) / 8;
  area.top = y.begin / 8;
  area.bottom = (y.end + 7) / 8;
  return area;
}

bool BaselineDecoder::open(std::string_view jpeg, const Frame& frame, Colour colour) {
  frame_ = &frame;
  colour_ = colour;
  // libjpeg-turbo doubles the chroma of such narrow images without interpolation.
  if (colour == Colour::kRgb && frame.across() == 2 && frame.width <= 4) return false;
  if (!scan_.read(jpeg.substr(frame.scan_at), frame.restart_interval > 0)) return false;
  const std::size_t mcus = size(frame.columns()) * size(frame.rows());
  const std::size_t interval = frame.restart_interval > 0 ? size(frame.restart_interval) : mcus;
  if (scan_.ends().size() != (mcus + interval - 1) / interval) return false;
  plan_.blocks = 0;
  for (std::size_t c = 0; c < size(frame.components); ++c) {
    const FrameComponent& component = frame.component[c];
    const DcTable* dc = dc_tables_.find(frame.dc_code[size(component.dc_code)]);
    const AcTable* ac = ac_tables_.find(frame.ac_code[size(component.ac_code)]);
    if (dc == nullptr || ac == nullptr) return false;
    for (int i = component.across * component.down; i > 0; --i) {
      McuPlan::Block& block = plan_.block[plan_.blocks++];
      block = {dc, ac, c, frame.quantiser[size(component.quantiser)][0], nullptr, 0, size(component.across)};
    }
  }
  return true;
}

void BaselineDecoder::prepare(const DecodeArea& area) {
  area_ = area;
  state_ = {};
  interval_ = 0;
  mcus_left_ = frame_->restart_interval > 0 ? size(frame_->restart_interval) : SIZE_MAX;
  std::size_t b = 0;
  for (std::size_t c = 0; c < size(frame_->components); ++c) {
    const FrameComponent& component = frame_->component[c];
    Strip& strip = strip_[c];
    strip.blocks = size((area.right - area.left) * component.across);
    const std::size_t room = (strip.blocks + kBlocksAtOnce - 1) / kBlocksAtOnce * kBlocksAtOnce;
    std::int16_t* coefficients = strip.coefficient_memory.zeros(64 * room * size(component.down));
    strip.stride = kRowLead + 8 * room + kRowTail;
    strip.ring = 2 * 8 * component.down;
    strip.samples = strip.sample_memory.zeros(strip.stride * size(strip.ring)) + kRowLead;
    strip.x = area.left * 8 * component.across;
    for (int v = 0; v < component.down; ++v) {
      strip.coefficients[size(v)] = coefficients + 64 * room * size(v);
      for (int h = 0; h < component.across; ++h, ++b) {
        plan_.block[b].coefficients = strip.coefficients[size(v)];
        plan_.block[b].first = size(h);
      }
    }
    next_[c] = area.samples[c].y;
  }
  if (colour_ != Colour::kRgb) return;
  const std::size_t room = size(area.samples[0].width) + 2 + kRowTail;
  std::uint8_t* rows = rgb_memory_.zeros(3 * room);
  for (std::size_t p = 0; p < 3; ++p) rgb_[p] = rows + p * room;
}

bool BaselineDecoder::decode(const DecodeArea& area, RowSink& sink) {
  prepare(area);
  for (int row = 0; row < area.bottom; ++row) {
    if (!decode_mcu_row(row)) return false;
    if (row < area.top) continue;
    transform(row);
    if (colour_ == Colour::kRgb) {
      extend_chroma(row);
      // With vertically subsampled chroma the last row of pixels waits for the chroma below it.
      const int ready = 8 * frame_->down() * (row + 1) - (frame_->down() - 1);
      push_rgb(row + 1 == area.bottom ? area.samples[0].bottom() : ready, sink);
    } else {
      push_planes(row, sink);
    }
  }
  return true;
}

bool BaselineDecoder::decode_mcu_row(int row) {
  const bool kept = row >= area_.top;
  // In the last row nothing to the right of the area is needed.
  const int end = row + 1 == area_.bottom ? area_.right : frame_->columns();
  for (int x = 0; x < end;) {
    if (mcus_left_ == 0) {
      state_ = {8 * std::uint64_t{scan_.ends()[interval_]}, {}};
      ++interval_;
      mcus_left_ = size(frame_->restart_interval);
    }
    const bool inside = kept && x >= area_.left && x < area_.right;
    const int zone_end = !kept ? end : x < area_.left ? area_.left : x < area_.right ? area_.right : end;
    const std::size_t mcus = std::min(size(zone_end - x), mcus_left_);
    if (!decode_mcus(scan_.begin(), 8 * std::uint64_t{scan_.ends()[interval_]}, plan_, inside ? x - area_.left : -1,
                     mcus, state_))
      return false;
    mcus_left_ -= mcus;
    x += static_cast<int>(mcus);
  }
  return true;
}

void BaselineDecoder::transform(int row) {
  for (std::size_t c = 0; c < size(frame_->components); ++c) {
    const FrameComponent& component = frame_->component[c];
    const Strip& strip = strip_[c];
    for (int v = 0; v < component.down; ++v)
      transform_blocks(strip.coefficients[size(v)], strip.blocks, frame_->quantiser[size(component.quantiser)],
                       strip.row(8 * (row * component.down + v)), strip.stride);
  }
}

// Beside the image, chroma repeats its edge.
void BaselineDecoder::extend_chroma(int row) {
  if (frame_->components == 1 || frame_->across() == 1) return;
  const int width = (frame_->width + 1) / 2;
  for (std::size_t c = 1; c < 3; ++c)
    for (int y = 8 * row; y < 8 * (row + 1); ++y) {
      std::uint8_t* samples = strip_[c].row(y);
      if (area_.left == 0) samples[-1] = samples[0];
      if (area_.right == frame_->columns()) samples[width - strip_[c].x] = samples[width - 1 - strip_[c].x];
    }
}

void BaselineDecoder::push_planes(int row, RowSink& sink) {
  for (std::size_t c = 0; c < size(frame_->components); ++c) {
    const PixelRect& window = area_.samples[c];
    const int end = std::min(8 * frame_->component[c].down * (row + 1), window.bottom());
    for (; next_[c] < end; ++next_[c])
      sink.row(static_cast<int>(c), next_[c], strip_[c].row(next_[c]) + (window.x - strip_[c].x));
  }
}

void BaselineDecoder::push_rgb(int end, RowSink& sink) {
  const PixelRect& window = area_.samples[0];
  const int across = frame_->across();
  const int down = frame_->down();
  const int last = (frame_->height + down - 1) / down - 1;
  const int left = window.x / across * across;
  const Sampling sampling = sampling_of(*frame_);
  for (; next_[0] < std::min(end, window.bottom()); ++next_[0]) {
    const int y = next_[0];
    SampleRows rows;
    rows.far_is_below = down == 2 && y % 2 == 1;
    const int near = y / down;
    const int far = down == 1 ? near : std::clamp(rows.far_is_below ? near + 1 : near - 1, 0, last);
    rows.luma = strip_[0].row(y) + (left - strip_[0].x);
    for (std::size_t c = 0; c < 2; ++c) {
      const Strip& strip = strip_[1 + c];
      rows.near[c] = strip.row(near) + (left / across - strip.x);
      rows.far[c] = strip.row(far) + (left / across - strip.x);
    }
    convert_row(sampling, rows, size(window.right() - left), rgb_);
    for (std::size_t p = 0; p < 3; ++p) sink.row(static_cast<int>(p), y, rgb_[p] + (window.x - left));
  }
  next_[1] = next_[2] = next_[0];
}

}  // namespace xoe::data::jpeg

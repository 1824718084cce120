#include "data/jpeg/reader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "data/image/too_large.h"
#include "data/jpeg/baseline.h"

namespace xoe::data {
namespace {

// De-interleaves the rows of a whole image.
void push_image(const Image& image, const jpeg::DecodeArea& area, int planes, const std::array<int, 3>& first,
                RowSink& sink) {
  const PixelRect& window = area.samples[0];
  std::vector<std::uint8_t> samples(static_cast<std::size_t>(window.width) + kRowSlack);
  for (int y = window.y; y < window.bottom(); ++y)
    for (int p = 0; p < planes; ++p) {
      if (y < first[static_cast<std::size_t>(p)]) continue;
      const std::uint8_t* pixels = image.row(y) + 3 * window.x + p;
      for (std::size_t x = 0; x < static_cast<std::size_t>(window.width); ++x) samples[x] = pixels[3 * x];
      sink.row(p, y, samples.data());
    }
}

void push_planes(const JpegPlanes& planes, const jpeg::DecodeArea& area, const std::array<int, 3>& first,
                 RowSink& sink) {
  for (std::size_t p = 0; p < 3; ++p)
    for (int y = std::max(area.samples[p].y, first[p]); y < area.samples[p].bottom(); ++y)
      sink.row(static_cast<int>(p), y, planes.row(p, y) + area.samples[p].x);
}

}  // namespace

Status JpegReader::decode_by_turbo(Colour colour, const jpeg::DecodeArea& area, const std::array<int, 3>& first,
                                   RowSink& sink) {
  fell_back_ = true;
  if (colour == Colour::kYcc) {
    XOE_TRY(turbo_.decode_planes(bytes_, planes_, max_pixels_));
    push_planes(planes_, area, first, sink);
    return {};
  }
  XOE_TRY(turbo_.decode(bytes_, image_, max_pixels_));
  push_image(image_, area, colour == Colour::kGrey ? 1 : 3, first, sink);
  return {};
}

Result<JpegHeader> JpegReader::open(std::string_view jpeg, std::int64_t max_pixels) {
  bytes_ = jpeg;
  max_pixels_ = max_pixels;
  framed_ = jpeg::read_frame(jpeg, frame_);
  if (!framed_) {
    XOE_ASSIGN(header_, turbo_.read_header(jpeg, max_pixels_));
    return header_;
  }
  const bool grey = frame_.components == 1;
  header_ = {frame_.width, frame_.height, grey, grey ? 1 : frame_.across(), grey ? 1 : frame_.down()};
  if (std::int64_t{frame_.width} * frame_.height > max_pixels_)
    return too_large("JPEG", frame_.width, frame_.height, max_pixels_);
  return header_;
}

Status JpegReader::decode(const PixelRect& window, Colour wanted, RowSink& sink) {
  fell_back_ = false;
  const Colour colour = header_.grey ? Colour::kGrey : header_.down == 0 ? Colour::kRgb : wanted;
  const bool stored = colour == Colour::kYcc;
  const jpeg::DecodeArea area = jpeg::area_of(window, colour, header_.width, header_.height,
                                              std::max(header_.across, 1), std::max(header_.down, 1));
  PlaneLayout layout{colour, header_.width, header_.height};
  if (stored) {
    layout.across = {1, header_.across, header_.across};
    layout.down = {1, header_.down, header_.down};
  }
  sink.start(layout, area.samples);
  std::array<int, 3> first = {};
  if (framed_ && baseline_.open(bytes_, frame_, colour)) {
    if (baseline_.decode(area, sink)) return {};
    for (std::size_t p = 0; p < 3; ++p) first[p] = baseline_.next_row(p);
  }
  return decode_by_turbo(colour, area, first, sink);
}

}  // namespace xoe::data

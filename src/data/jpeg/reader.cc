#include "data/jpeg/reader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/jpeg/baseline.h"

namespace xoe::data {
namespace {

// De-interleaves the rows of a whole image.
void push_image(const Image& image, const jpeg::Cut& cut, int planes, const std::array<int, 3>& from, RowSink& sink) {
  const PixelRect& window = cut.samples[0];
  std::vector<std::uint8_t> samples(static_cast<std::size_t>(window.width) + kRowSlack);
  for (int y = window.y; y < window.bottom(); ++y)
    for (int p = 0; p < planes; ++p) {
      if (y < from[static_cast<std::size_t>(p)]) continue;
      const std::uint8_t* pixels = image.row(y) + 3 * window.x + p;
      for (std::size_t x = 0; x < static_cast<std::size_t>(window.width); ++x) samples[x] = pixels[3 * x];
      sink.row(p, y, samples.data());
    }
}

void push_planes(const JpegPlanes& planes, const jpeg::Cut& cut, const std::array<int, 3>& from, RowSink& sink) {
  for (std::size_t p = 0; p < 3; ++p)
    for (int y = std::max(cut.samples[p].y, from[p]); y < cut.samples[p].bottom(); ++y)
      sink.row(static_cast<int>(p), y, planes.row(p, y) + cut.samples[p].x);
}

}  // namespace

struct JpegReader::State {
  std::int64_t max_pixels = 0;
  std::string_view bytes;
  JpegHeader header;
  jpeg::Frame frame;
  bool framed = false;  // whether the own decoder takes it
  bool fell_back = false;
  jpeg::BaselineDecoder baseline;
  JpegDecoder turbo;
  Image image;
  JpegPlanes planes;

  // Everything that the sink has not got yet.
  Status decode_by_turbo(Colour colour, const jpeg::Cut& cut, const std::array<int, 3>& from, RowSink& sink) {
    fell_back = true;
    if (colour == Colour::kYcc) {
      XOE_TRY(turbo.decode_planes(bytes, planes, max_pixels));
      push_planes(planes, cut, from, sink);
      return {};
    }
    XOE_TRY(turbo.decode(bytes, image, max_pixels));
    push_image(image, cut, colour == Colour::kGrey ? 1 : 3, from, sink);
    return {};
  }
};

JpegReader::JpegReader(std::int64_t max_pixels) : state_(std::make_unique<State>()) { state_->max_pixels = max_pixels; }
JpegReader::JpegReader(JpegReader&&) noexcept = default;
JpegReader& JpegReader::operator=(JpegReader&&) noexcept = default;
JpegReader::~JpegReader() = default;

bool JpegReader::fell_back() const noexcept { return state_->fell_back; }

Result<JpegHeader> JpegReader::open(std::string_view jpeg) {
  State& state = *state_;
  state.bytes = jpeg;
  state.framed = jpeg::read_frame(jpeg, state.frame);
  if (!state.framed) {
    XOE_ASSIGN(state.header, state.turbo.read_header(jpeg, state.max_pixels));
    return state.header;
  }
  const jpeg::Frame& frame = state.frame;
  const bool grey = frame.components == 1;
  state.header = {frame.width, frame.height, grey, grey ? 1 : frame.across(), grey ? 1 : frame.down()};
  if (std::int64_t{frame.width} * frame.height > state.max_pixels)
    return failure(Code::kResourceExhausted, "JPEG of {} x {} pixels; at most {} pixels are decoded", frame.width,
                   frame.height, state.max_pixels);
  return state.header;
}

Status JpegReader::decode(const PixelRect& window, Colour wanted, RowSink& sink) {
  State& state = *state_;
  const JpegHeader& header = state.header;
  state.fell_back = false;
  const Colour colour = header.grey ? Colour::kGrey : header.down == 0 ? Colour::kRgb : wanted;
  const bool stored = colour == Colour::kYcc;
  const jpeg::Cut cut = jpeg::cut_window(window, colour, header.width, header.height, std::max(header.across, 1),
                                         std::max(header.down, 1));
  PlaneLayout layout{colour, header.width, header.height};
  if (stored) {
    layout.across = {1, header.across, header.across};
    layout.down = {1, header.down, header.down};
  }
  sink.start(layout, cut.samples);
  std::array<int, 3> from = {};
  if (state.framed && state.baseline.open(state.bytes, state.frame, colour)) {
    if (state.baseline.decode(cut, sink)) return {};
    for (std::size_t p = 0; p < 3; ++p) from[p] = state.baseline.next_row(p);
  }
  return state.decode_by_turbo(colour, cut, from, sink);
}

}  // namespace xoe::data

#include "data/load/image_decoder.h"

#include <cstddef>
#include <cstring>

#include "base/error.h"

namespace xoe::data {
namespace {

constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";
constexpr std::int64_t kMaxRawSide = 1 << 20;

}  // namespace

Result<ImageDecoder::Facts> ImageDecoder::open(const ImageRecord& record) {
  record_ = record;
  if (record.width != 0) {
    kind_ = Kind::kPixels;
    const bool sized = record.width > 0 && record.height > 0 && record.width <= kMaxRawSide &&
                       record.height <= kMaxRawSide && (record.channels == 1 || record.channels == 3);
    if (!sized || record.bytes.size() != std::size_t{1} * record.width * record.height * record.channels)
      return failure(Code::kDataLoss, "{} bytes are not {} x {} pixels of {} channels", record.bytes.size(),
                     record.width, record.height, record.channels);
    return Facts{record.width, record.height};
  }
  if (record.bytes.starts_with(kPngSignature)) {
    kind_ = Kind::kPng;
    XOE_ASSIGN(const PngHeader header, png_.open(record.bytes));
    return Facts{header.width, header.height};
  }
  kind_ = Kind::kJpeg;
  XOE_ASSIGN(const JpegHeader header, jpeg_.open(record.bytes));
  return Facts{header.width, header.height};
}

Status ImageDecoder::decode(const PixelRect& window, Colour wanted, RowSink& sink) {
  switch (kind_) {
    case Kind::kJpeg: return jpeg_.decode(window, wanted, sink);
    case Kind::kPng: return png_.push(window, sink);
    case Kind::kPixels: break;
  }
  push_pixels(window, sink);
  return {};
}

void ImageDecoder::push_pixels(const PixelRect& window, RowSink& sink) {
  const auto* pixels = reinterpret_cast<const std::uint8_t*>(record_.bytes.data());
  const auto at = [&](int y) {
    return pixels + (std::size_t{1} * y * record_.width + window.x) * static_cast<std::size_t>(record_.channels);
  };
  if (record_.channels == 3) {
    rgb_.start(record_.width, record_.height, window, sink);
    for (int y = window.y; y < window.bottom(); ++y) rgb_.push(y, at(y), sink);
    return;
  }
  PlaneLayout layout{.colour = Colour::kGrey, .width = record_.width, .height = record_.height};
  sink.start(layout, {window, window, window});
  grey_.resize(static_cast<std::size_t>(window.width) + kRowSlack);
  for (int y = window.y; y < window.bottom(); ++y) {
    std::memcpy(grey_.data(), at(y), static_cast<std::size_t>(window.width));
    sink.row(0, y, grey_.data());
  }
}

}  // namespace xoe::data

#include "data/codec/codec.h"

#include "core/base/error.h"

namespace xoe::data {
namespace {

constexpr std::uint32_t kMaxHeaderSide = 1U << 20;

std::unique_ptr<Codec> make(Encoding encoding) {
  switch (encoding) {
    case Encoding::kJpeg: return make_jpeg_codec();
    case Encoding::kPng: return make_png_codec();
  }
  return nullptr;
}

}  // namespace

std::string_view ImageFacts::colour() const noexcept {
  switch (channels) {
    case 1: return "grey";
    case 2: return "grey with alpha";
    case 3: return "colour";
    case 4: return cmyk ? "CMYK" : "colour with alpha";
    default: return "of unusual channels";
  }
}

Result<ImageFacts> sized(ImageFacts facts, std::uint32_t width, std::uint32_t height) {
  if (width == 0 || height == 0 || width > kMaxHeaderSide || height > kMaxHeaderSide)
    return failure(Code::kDataLoss, "an image of {} x {} pixels", width, height);
  facts.width = static_cast<int>(width);
  facts.height = static_cast<int>(height);
  return facts;
}

int Codec::orientation(std::string_view) const { return 1; }

Codec& Codecs::of(Encoding encoding) {
  std::unique_ptr<Codec>& one = made_[static_cast<std::size_t>(encoding)];
  if (one == nullptr) one = make(encoding);
  return *one;
}

}  // namespace xoe::data

#include "data/jpeg/frame.h"

#include <algorithm>

namespace xoe::data::jpeg {
namespace {

enum Marker : int {
  kSof0 = 0xc0,
  kSof1 = 0xc1,
  kDht = 0xc4,
  kSoi = 0xd8,
  kSos = 0xda,
  kDqt = 0xdb,
  kDri = 0xdd,
  kApp0 = 0xe0,
  kApp14 = 0xee,
  kApp15 = 0xef,
  kCom = 0xfe,
};

constexpr int kMaxJpegSide = 65500;  // libjpeg's

int byte_at(std::string_view bytes, std::size_t i) { return static_cast<unsigned char>(bytes[i]); }
int two_bytes_at(std::string_view bytes, std::size_t i) { return 256 * byte_at(bytes, i) + byte_at(bytes, i + 1); }

class FrameReader {
 public:
  FrameReader(std::string_view jpeg, Frame& frame) : jpeg_(jpeg), frame_(frame) {}

  bool read() {
    if (jpeg_.size() < 4 || byte_at(jpeg_, 0) != 0xff || byte_at(jpeg_, 1) != kSoi) return false;
    for (std::size_t at = 2; at + 4 <= jpeg_.size();) {
      if (byte_at(jpeg_, at) != 0xff) return false;
      const int marker = byte_at(jpeg_, at + 1);
      const auto length = static_cast<std::size_t>(two_bytes_at(jpeg_, at + 2));
      if (length < 2 || length > jpeg_.size() - at - 2) return false;
      const std::string_view body = jpeg_.substr(at + 4, length - 2);
      at += 2 + length;
      if (marker == kSos) {
        frame_.scan_at = at;
        return read_scan(body) && usable();
      }
      if (!read_segment(marker, body)) return false;
    }
    return false;
  }

 private:
  bool read_segment(int marker, std::string_view body) {
    switch (marker) {
      case kSof0:
      case kSof1: return read_size(body);
      case kDht: return read_codes(body);
      case kDqt: return read_quantisers(body);
      case kDri:
        if (body.size() != 2) return false;
        frame_.restart_interval = two_bytes_at(body, 0);
        return true;
      case kApp0: jfif_ = jfif_ || (body.size() >= 14 && body.starts_with(std::string_view("JFIF\0", 5))); return true;
      case kApp14:
        if (body.size() >= 12 && body.starts_with("Adobe")) adobe_transform_ = byte_at(body, 11);
        return true;
      default: return marker == kCom || (marker > kApp0 && marker <= kApp15);
    }
  }

  bool read_size(std::string_view body) {
    if (sized_ || body.size() < 6 || byte_at(body, 0) != 8) return false;
    sized_ = true;
    frame_.height = two_bytes_at(body, 1);
    frame_.width = two_bytes_at(body, 3);
    frame_.components = byte_at(body, 5);
    if (frame_.width < 1 || frame_.width > kMaxJpegSide || frame_.height < 1 || frame_.height > kMaxJpegSide)
      return false;
    if (frame_.components != 1 && frame_.components != 3) return false;
    if (body.size() != 6 + 3 * static_cast<std::size_t>(frame_.components)) return false;
    for (std::size_t c = 0; c < static_cast<std::size_t>(frame_.components); ++c) {
      FrameComponent& component = frame_.component[c];
      component.id = byte_at(body, 6 + 3 * c);
      component.across = byte_at(body, 7 + 3 * c) >> 4;
      component.down = byte_at(body, 7 + 3 * c) & 15;
      component.quantiser = byte_at(body, 8 + 3 * c);
    }
    return true;
  }

  bool read_codes(std::string_view body) {
    while (!body.empty()) {
      if (body.size() < 17) return false;
      const int index = byte_at(body, 0);
      std::size_t symbols = 0;
      for (std::size_t i = 1; i <= 16; ++i) symbols += static_cast<std::size_t>(byte_at(body, i));
      if ((index & ~0x13) != 0 || symbols > 256 || symbols > body.size() - 17) return false;
      (index >= 16 ? frame_.ac_code : frame_.dc_code)[static_cast<std::size_t>(index & 3)] =
          body.substr(1, 16 + symbols);
      body.remove_prefix(17 + symbols);
    }
    return true;
  }

  bool read_quantisers(std::string_view body) {
    while (!body.empty()) {
      const int index = byte_at(body, 0);
      if (index > 3 || body.size() < 65) return false;  // an index above 15 means 16-bit steps
      auto& table = frame_.quantiser[static_cast<std::size_t>(index)];
      for (std::size_t k = 0; k < 64; ++k) table[kNaturalOrder[k]] = static_cast<std::uint16_t>(byte_at(body, 1 + k));
      quantised_[static_cast<std::size_t>(index)] = true;
      body.remove_prefix(65);
    }
    return true;
  }

  bool read_scan(std::string_view body) {
    const auto components = static_cast<std::size_t>(frame_.components);
    if (!sized_ || body.size() != 4 + 2 * components || byte_at(body, 0) != frame_.components) return false;
    for (std::size_t c = 0; c < components; ++c) {
      FrameComponent& component = frame_.component[c];
      const int codes = byte_at(body, 2 + 2 * c);
      component.dc_code = codes >> 4;
      component.ac_code = codes & 15;
      if (byte_at(body, 1 + 2 * c) != component.id || component.dc_code > 3 || component.ac_code > 3) return false;
    }
    return body.substr(1 + 2 * components) == std::string_view("\0\x3f\0", 3);
  }

  bool usable() {
    const auto components = static_cast<std::size_t>(frame_.components);
    for (std::size_t c = 0; c < components; ++c) {
      const FrameComponent& component = frame_.component[c];
      const auto quantiser = static_cast<std::size_t>(component.quantiser);
      if (quantiser > 3 || !quantised_[quantiser]) return false;
      const auto& steps = frame_.quantiser[quantiser];
      if (std::find(steps.begin(), steps.end(), 0) != steps.end()) return false;
      if (frame_.dc_code[static_cast<std::size_t>(component.dc_code)].empty()) return false;
      if (frame_.ac_code[static_cast<std::size_t>(component.ac_code)].empty()) return false;
    }
    FrameComponent& first = frame_.component[0];
    if (components == 1) {
      // A single component is stored block by block, whatever its factors are.
      const bool plain = first.across == first.down && first.across >= 1 && first.across <= 4;
      first.across = first.down = 1;
      return plain;
    }
    for (std::size_t c = 1; c < 3; ++c)
      if (frame_.component[c].across != 1 || frame_.component[c].down != 1) return false;
    if (first.across < 1 || first.across > 2 || first.down < 1 || first.down > 2) return false;
    return luma_and_chroma();
  }

  // As libjpeg guesses. Where it would warn, it gets the file.
  bool luma_and_chroma() const {
    if (jfif_) return true;
    if (adobe_transform_ >= 0) return adobe_transform_ == 1;
    return frame_.component[0].id == 1 && frame_.component[1].id == 2 && frame_.component[2].id == 3;
  }

  std::string_view jpeg_;
  Frame& frame_;
  bool sized_ = false;
  bool jfif_ = false;
  int adobe_transform_ = -1;
  std::array<bool, 4> quantised_ = {};
};

}  // namespace

bool read_frame(std::string_view jpeg, Frame& frame) {
  frame = Frame();
  return FrameReader(jpeg, frame).read();
}

}  // namespace xoe::data::jpeg

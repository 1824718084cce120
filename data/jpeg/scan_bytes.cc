#include "data/jpeg/scan_bytes.h"

#include <algorithm>
#include <cstring>

namespace xoe::data::jpeg {

bool ScanBytes::read(std::string_view scan, bool restarts) {
  if (scan.size() + kSlack > capacity_) {
    capacity_ = scan.size() + scan.size() / 4 + kSlack;
    bytes_.reset(new std::uint8_t[capacity_]);
  }
  ends_.clear();
  std::uint8_t* out = bytes_.get();
  const char* in = scan.data();
  const char* const end = in + scan.size();
  for (;;) {
    const auto* mark = static_cast<const char*>(std::memchr(in, 0xff, static_cast<std::size_t>(end - in)));
    if (mark == nullptr || end - mark < 2) return false;
    const auto length = static_cast<std::size_t>(mark - in);
    std::memcpy(out, in, length);
    out += length;
    in = mark + 2;
    const auto code = static_cast<unsigned char>(mark[1]);
    if (code == 0) {
      *out++ = 0xff;
      continue;
    }
    const auto done = static_cast<std::size_t>(out - bytes_.get());
    const bool image_end = code == 0xd9;
    if (!image_end && (!restarts || code != 0xd0 + ends_.size() % 8)) return false;
    ends_.push_back(done);
    if (image_end) break;
  }
  std::fill_n(out, kSlack, std::uint8_t{0});
  return true;
}

}  // namespace xoe::data::jpeg

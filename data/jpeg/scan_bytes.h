// The entropy-coded bytes of a scan, without stuffing and restart markers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace xoe::data::jpeg {

class ScanBytes {
 public:
  // Zeros behind the end, so that a reader need not check its position at every block.
  static constexpr std::size_t kSlack = 4096;

  // Removes the stuffed zeros and, with `restarts`, the restart markers. False when the end-of-image marker does not
  // follow the scan directly, or the restart markers are out of order.
  bool read(std::string_view scan, bool restarts);

  const std::uint8_t* begin() const noexcept { return bytes_.get(); }
  // Byte offsets of the ends of the restart intervals; at least one.
  const std::vector<std::size_t>& ends() const noexcept { return ends_; }

 private:
  std::unique_ptr<std::uint8_t[]> bytes_;
  std::size_t capacity_ = 0;
  std::vector<std::size_t> ends_;
};

}  // namespace xoe::data::jpeg

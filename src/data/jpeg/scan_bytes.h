// The entropy-coded bytes of a scan, made easy to read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace xoe::data::jpeg {

class ScanBytes {
 public:
  // Reading a few blocks past the end meets zeros: whoever reads checks only now and then.
  static constexpr std::size_t kSlack = 4096;

  // Takes the stuffed zeros and, when `restarts`, the restart markers out. False when the scan does not end with the
  // image's end right behind it, or its restart markers are out of order.
  bool read(std::string_view scan, bool restarts);

  const std::uint8_t* begin() const noexcept { return bytes_.get(); }
  // Byte offsets behind the stretches between restart markers; at least one.
  const std::vector<std::size_t>& ends() const noexcept { return ends_; }

 private:
  std::unique_ptr<std::uint8_t[]> bytes_;
  std::size_t capacity_ = 0;
  std::vector<std::size_t> ends_;
};

}  // namespace xoe::data::jpeg

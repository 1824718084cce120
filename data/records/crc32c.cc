#include "data/records/crc32c.h"

#include <array>
#include <cstddef>

namespace xoe::data {
namespace {

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

// tables[k][b]: the CRC of byte b followed by k zero bytes, so that eight bytes take eight independent look-ups.
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kCrc32cPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < tables.size(); ++k)
    for (std::size_t byte = 0; byte < 256; ++byte)
      tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 0xff];
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

std::uint32_t crc32c_portable(std::string_view bytes) noexcept {
  std::uint32_t crc = ~0U;
  const auto at = [&bytes](std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); };
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint32_t next = 0;
    for (std::size_t k = 0; k < 8; ++k) {
      const std::uint32_t byte = k < 4 ? (crc >> (8 * k)) & 0xff : 0;
      next ^= kTables[7 - k][byte ^ at(i + k)];
    }
    crc = next;
  }
  for (; i < bytes.size(); ++i) crc = (crc >> 8) ^ kTables[0][(crc ^ at(i)) & 0xff];
  return ~crc;
}

std::uint32_t crc32c(std::string_view bytes) noexcept {
  static const auto best = crc32c_has_wide() ? crc32c_wide : crc32c_has_hardware() ? crc32c_hardware : crc32c_portable;
  return best(bytes);
}

}  // namespace xoe::data

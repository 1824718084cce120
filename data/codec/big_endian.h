// Numbers in headers, the highest byte first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace xoe::data {

// REQUIRES: the bytes from `at` on have as many.
inline std::uint32_t big_endian(std::string_view bytes, std::size_t at, std::size_t count) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value = value << 8 | static_cast<std::uint8_t>(bytes[at + i]);
  return value;
}

}  // namespace xoe::data

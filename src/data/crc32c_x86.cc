#include <nmmintrin.h>

#include <cstring>

#include "data/crc32c.h"

namespace xoe::data {

bool crc32c_has_hardware() noexcept { return __builtin_cpu_supports("sse4.2") != 0; }

__attribute__((target("sse4.2"))) std::uint32_t crc32c_hardware(std::string_view bytes) noexcept {
  std::uint64_t crc = 0xffffffffU;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    crc = _mm_crc32_u64(crc, word);
  }
  auto narrow = static_cast<std::uint32_t>(crc);
  for (const char byte : bytes) narrow = _mm_crc32_u8(narrow, static_cast<std::uint8_t>(byte));
  return ~narrow;
}

}  // namespace xoe::data

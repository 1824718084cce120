#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "data/records/crc32c.h"

namespace xoe::data {
namespace {

constexpr std::size_t kMaxChainWords = 128;  // of one chain: three of them are 3 KiB

// A CRC times kShift[n], folded by one CRC instruction, is that CRC followed by 8 * n zero bytes: the product of two
// reflected numbers is off by x, and the instruction multiplies by x^32.
constexpr auto make_shifts() {
  std::array<std::uint32_t, 2 * kMaxChainWords + 1> shifts{};
  std::uint32_t power = crc32c_power(64 - 33);
  for (std::size_t n = 1; n < shifts.size(); ++n) {
    shifts[n] = power;
    for (int i = 0; i < 64; ++i) power = (power >> 1) ^ ((power & 1) != 0 ? kCrc32cPolynomial : 0);
  }
  return shifts;
}
constexpr auto kShift = make_shifts();

std::uint64_t word_at(const char* from) {
  std::uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

__attribute__((target("sse4.2,pclmul"))) std::uint64_t shifted(std::uint64_t crc, std::size_t words) {
  const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<long long>(crc)),
                                               _mm_cvtsi32_si128(static_cast<int>(kShift[words])), 0);
  return static_cast<std::uint64_t>(_mm_cvtsi128_si64(product));
}

// The instruction takes three cycles but starts every cycle, so three chains side by side keep it busy.
__attribute__((target("sse4.2,pclmul"))) std::uint64_t three_chains(std::uint64_t crc, const char* from,
                                                                    std::size_t words) {
  const char* second = from + 8 * words;
  const char* third = second + 8 * words;
  std::uint64_t b = 0;
  std::uint64_t c = 0;
  for (std::size_t i = 0; i + 1 < words; ++i) {
    crc = _mm_crc32_u64(crc, word_at(from + 8 * i));
    b = _mm_crc32_u64(b, word_at(second + 8 * i));
    c = _mm_crc32_u64(c, word_at(third + 8 * i));
  }
  crc = _mm_crc32_u64(crc, word_at(second - 8));
  b = _mm_crc32_u64(b, word_at(third - 8));
  return _mm_crc32_u64(c, word_at(third + 8 * (words - 1)) ^ shifted(crc, 2 * words) ^ shifted(b, words));
}

__attribute__((target("sse4.2,pclmul"))) std::uint32_t extend(std::uint32_t start, std::string_view bytes) {
  std::uint64_t crc = start;
  while (bytes.size() >= 24) {
    const std::size_t words = std::min(bytes.size() / 24, kMaxChainWords);
    crc = three_chains(crc, bytes.data(), words);
    bytes.remove_prefix(24 * words);
  }
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) crc = _mm_crc32_u64(crc, word_at(bytes.data()));
  auto narrow = static_cast<std::uint32_t>(crc);
  for (const char byte : bytes) narrow = _mm_crc32_u8(narrow, static_cast<std::uint8_t>(byte));
  return narrow;
}

// Moves 16 bytes at each place `Bits` further on.
template <unsigned Bits>
__attribute__((target("avx512f,vpclmulqdq"))) __m512i folded(__m512i sum, __m512i next) {
  const __m512i by = _mm512_set4_epi64(crc32c_power(Bits - 33), crc32c_power(Bits + 31), crc32c_power(Bits - 33),
                                       crc32c_power(Bits + 31));
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(sum, by, 0x00), _mm512_clmulepi64_epi128(sum, by, 0x11),
                                   next, 0x96);
}

}  // namespace

bool crc32c_has_hardware() noexcept {
  return __builtin_cpu_supports("sse4.2") != 0 && __builtin_cpu_supports("pclmul") != 0;
}
bool crc32c_has_wide() noexcept {
  return crc32c_has_hardware() && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0;
}

std::uint32_t crc32c_hardware(std::string_view bytes) noexcept { return ~extend(~0U, bytes); }

__attribute__((target("avx512f,vpclmulqdq"))) std::uint32_t crc32c_wide(std::string_view bytes) noexcept {
  if (bytes.size() < 256) return crc32c_hardware(bytes);
  const auto at = [&bytes](std::size_t i) __attribute__((target("avx512f"))) {
    return _mm512_loadu_si512(bytes.data() + 64 * i);
  };
  // Each sum stands for all bytes so far at its 64 of every 256.
  __m512i a = _mm512_xor_si512(at(0), _mm512_zextsi128_si512(_mm_cvtsi32_si128(-1)));
  __m512i b = at(1);
  __m512i c = at(2);
  __m512i d = at(3);
  for (bytes.remove_prefix(256); bytes.size() >= 256; bytes.remove_prefix(256)) {
    a = folded<2048>(a, at(0));
    b = folded<2048>(b, at(1));
    c = folded<2048>(c, at(2));
    d = folded<2048>(d, at(3));
  }
  __m512i sum = folded<512>(folded<512>(folded<512>(a, b), c), d);
  for (; bytes.size() >= 64; bytes.remove_prefix(64)) sum = folded<512>(sum, at(0));
  char last[64];
  _mm512_storeu_si512(last, sum);
  return ~extend(extend(0, {last, sizeof last}), bytes);
}

}  // namespace xoe::data

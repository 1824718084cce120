// CRC-32C (Castagnoli, RFC 3720), as TFRecord files use it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace xoe::data {

std::uint32_t crc32c(std::string_view bytes) noexcept;

// The same with tables, on any machine.
std::uint32_t crc32c_portable(std::string_view bytes) noexcept;
// The same with the processor's instruction, three chains at a time; REQUIRES: crc32c_has_hardware().
std::uint32_t crc32c_hardware(std::string_view bytes) noexcept;
bool crc32c_has_hardware() noexcept;
// The same by folding 256 bytes at a time (V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using
// PCLMULQDQ Instruction", Intel 2009); REQUIRES: crc32c_has_wide().
std::uint32_t crc32c_wide(std::string_view bytes) noexcept;
bool crc32c_has_wide() noexcept;

inline constexpr std::uint32_t kCrc32cPolynomial = 0x82f63b78U;  // reflected: bit i is the coefficient of x^(31-i)

// x^n modulo the polynomial, reflected.
constexpr std::uint32_t crc32c_power(unsigned n) noexcept {
  std::uint32_t power = 0x80000000U;
  for (unsigned i = 0; i < n; ++i) power = (power >> 1) ^ ((power & 1) != 0 ? kCrc32cPolynomial : 0);
  return power;
}

// TFRecord stores CRCs rotated and offset, so that the CRC of data that contains CRCs stays meaningful.
constexpr std::uint32_t mask_crc(std::uint32_t crc) noexcept { return ((crc >> 15) | (crc << 17)) + 0xa282ead8U; }

}  // namespace xoe::data

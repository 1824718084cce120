// CRC-32C (Castagnoli, RFC 3720), as TFRecord files use it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace xoe::data {

std::uint32_t crc32c(std::string_view bytes) noexcept;

// The same from tables, on any machine.
std::uint32_t crc32c_portable(std::string_view bytes) noexcept;
// The same with the processor's instruction; REQUIRES: crc32c_has_hardware().
std::uint32_t crc32c_hardware(std::string_view bytes) noexcept;
bool crc32c_has_hardware() noexcept;

// TFRecord stores CRCs rotated and offset, so that the CRC of data which contains CRCs stays meaningful.
constexpr std::uint32_t mask_crc(std::uint32_t crc) noexcept { return ((crc >> 15) | (crc << 17)) + 0xa282ead8U; }

}  // namespace xoe::data

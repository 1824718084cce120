// For processors whose CRC instruction is not used.
#include "data/records/crc32c.h"

namespace xoe::data {

bool crc32c_has_hardware() noexcept { return false; }

std::uint32_t crc32c_hardware(std::string_view bytes) noexcept { return crc32c_portable(bytes); }

bool crc32c_has_wide() noexcept { return false; }

std::uint32_t crc32c_wide(std::string_view bytes) noexcept { return crc32c_portable(bytes); }

}  // namespace xoe::data

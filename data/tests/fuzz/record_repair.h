// Makes the CRCs of record framing right, so that fuzzing reaches what is behind their checks.
#pragma once

#include <string>
#include <string_view>

#include "data/records/crc32c.h"
#include "data/records/record_file.h"

namespace xoe::data {

inline void put_crc(std::string& file, std::size_t at, std::string_view of) {
  const std::uint32_t crc = mask_crc(crc32c(of));
  for (std::size_t i = 0; i < 4; ++i) file[at + i] = static_cast<char>((crc >> (8 * i)) & 0xff);
}

// Of records shorter than 256 bytes; with `leave` every third one stays as it is.
inline void repair(std::string& file, bool leave) {
  int number = 0;
  for (std::size_t offset = 0; offset + kRecordHeader <= file.size(); ++number) {
    const std::size_t length = static_cast<std::uint8_t>(file[offset]);
    const std::size_t footer = offset + kRecordHeader + length;
    if (!leave || number % 3 != 2) {
      put_crc(file, offset + 8, std::string_view(file).substr(offset, 8));
      if (footer + 4 > file.size()) return;
      put_crc(file, footer, std::string_view(file).substr(offset + kRecordHeader, length));
    }
    offset = footer + 4;
  }
}

}  // namespace xoe::data

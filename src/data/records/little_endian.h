// Numbers in files.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace xoe::data {

template <class T>
T load_little(const char* from) noexcept {
  if constexpr (std::endian::native == std::endian::little) {
    T value = 0;
    std::memcpy(&value, from, sizeof value);
    return value;
  } else {
    T value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<std::uint8_t>(from[i])) << (8 * i);
    return value;
  }
}

template <class T>
void append_little(std::string& to, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) to.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
}

}  // namespace xoe::data

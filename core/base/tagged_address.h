// An address with 16 bits of a hash above it, in one word that can change atomically.
#pragma once

#include <cstdint>

namespace xoe {

inline constexpr int kAddressBits = 48;  // of a process's own memory, on x86-64 and arm64

template <class T>
std::uint64_t tag_address(const T* object, std::uint64_t hash) noexcept {
  return reinterpret_cast<std::uint64_t>(object) | hash >> kAddressBits << kAddressBits;
}
constexpr std::uint64_t tag_of_address(std::uint64_t word) noexcept { return word >> kAddressBits; }
template <class T>
T* untagged_address(std::uint64_t word) noexcept {
  return reinterpret_cast<T*>(word & ((std::uint64_t{1} << kAddressBits) - 1));  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace xoe

// Comparing secrets.
#pragma once

#include <cstddef>
#include <string_view>

namespace xoe {

// Takes a time that depends on the length of `b` only, not on where the two differ.
inline bool equal_in_constant_time(std::string_view a, std::string_view b) noexcept {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const char other = a.empty() ? '\0' : a[i % a.size()];
    difference |= static_cast<unsigned>(static_cast<unsigned char>(other) ^ static_cast<unsigned char>(b[i]));
  }
  return difference == 0;
}

}  // namespace xoe

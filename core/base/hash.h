// Hashes of small keys.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace xoe {

// The finaliser of splitmix64 (Steele et al., 2014).
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

inline std::uint64_t hash_text(std::string_view text, std::uint64_t seed = 0) noexcept {
  std::uint64_t sum = text.size() + seed;
  for (; !text.empty(); text.remove_prefix(std::min(text.size(), sizeof sum))) {
    std::uint64_t word = 0;
    text.copy(reinterpret_cast<char*>(&word), sizeof word);
    sum = mix(sum ^ word);
  }
  return sum;
}

}  // namespace xoe

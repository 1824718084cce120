// Buffers and tables of net::Net implementations.
#pragma once

#include <cstddef>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

namespace xoe::net {

inline std::byte* at(void* data, std::size_t bytes) { return static_cast<std::byte*>(data) + bytes; }
inline const std::byte* at(const void* data, std::size_t bytes) { return static_cast<const std::byte*>(data) + bytes; }

inline void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0 && to != from) std::memcpy(to, from, bytes);
}

inline std::size_t sum_before(std::span<const std::size_t> counts, int member) {
  return std::accumulate(counts.begin(), counts.begin() + member, std::size_t{0});
}

// `count` in parts of equal size, of which the first ones have one more where it does not divide.
inline std::vector<std::size_t> equal_parts(std::size_t count, std::size_t parts) {
  std::vector<std::size_t> sizes(parts, count / parts);
  for (std::size_t part = 0; part < count % parts; ++part) ++sizes[part];
  return sizes;
}

}  // namespace xoe::net

// Buffers and tables of net::Net implementations.
#pragma once

#include <cstddef>
#include <cstring>
#include <numeric>
#include <span>

namespace xoe::net {

inline std::byte* at(void* data, std::size_t bytes) { return static_cast<std::byte*>(data) + bytes; }
inline const std::byte* at(const void* data, std::size_t bytes) { return static_cast<const std::byte*>(data) + bytes; }

inline void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0 && to != from) std::memcpy(to, from, bytes);
}

inline std::size_t sum_before(std::span<const std::size_t> counts, int member) {
  return std::accumulate(counts.begin(), counts.begin() + member, std::size_t{0});
}

}  // namespace xoe::net

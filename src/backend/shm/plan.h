// Which way an operation goes and how it is cut, as pure functions of what all ranks know.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backend/shm/layout.h"

namespace xoe::shm {

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  constexpr std::size_t size() const noexcept { return end - begin; }
};

// Up to this many bytes a reduction goes one-shot: every rank posts its input and reduces all of them itself, which
// costs one exchange instead of two but reads size x bytes. Two ranks: measured with bench/run.py (at 16 KiB one-shot
// wins for private memory, 0.8 against 1.0 us, and loses for shared, 0.8 against 0.6). More: so that all ranks together
// read as much.
struct EagerLimit {
  int size;
  std::size_t bytes;
};
inline constexpr EagerLimit kEagerReduceLimits[] = {
    {2, 8 * 1024}, {4, 4 * 1024}, {8, 2 * 1024}, {16, 1024}, {kMaxRanks, 512}};

constexpr std::size_t eager_reduce_limit(int size) noexcept {
  for (const EagerLimit& limit : kEagerReduceLimits)
    if (size <= limit.size) return limit.bytes;
  return 0;
}

// Copies (broadcast, allgather, alltoall) read each byte once either way.
inline constexpr std::size_t kEagerCopyLimit = 16 * 1024;
static_assert(kEagerCopyLimit + kMaxRanks * sizeof(std::size_t) <= kEagerBytes);
static_assert(kEagerReduceLimits[0].bytes <= kEagerBytes);

// Part `part` of `parts` of `count` elements, cut at cache lines so that no two ranks write to one.
constexpr Range slice(std::size_t count, std::size_t element_bytes, int part, int parts) noexcept {
  const std::size_t per_line = kLine / element_bytes;
  const std::size_t lines = (count + per_line - 1) / per_line;
  const auto p = static_cast<std::size_t>(part), n = static_cast<std::size_t>(parts);
  return {std::min(count, lines * p / n * per_line), std::min(count, lines * (p + 1) / n * per_line)};
}

// Elements per round when a chunk carries one range (allreduce, broadcast, allgather) ...
constexpr std::size_t chunk_elements(std::size_t element_bytes) noexcept { return kChunkBytes / element_bytes; }
// ... and when it carries a piece for each rank (reduce-scatter, alltoall).
constexpr std::size_t piece_elements(std::size_t element_bytes, int size) noexcept {
  return kChunkBytes / static_cast<std::size_t>(size) / kLine * kLine / element_bytes;
}

// Where nothing is staged: elements that one rank reduces or copies in a round. Rounds then only bound the time between
// two looks at whether the group still stands.
inline constexpr std::size_t kDirectBytes = std::size_t{32} << 20;
constexpr std::size_t direct_elements(std::size_t element_bytes) noexcept { return kDirectBytes / element_bytes; }

constexpr std::uint64_t rounds_for(std::size_t count, std::size_t per_round) noexcept {
  return per_round == 0 ? 0 : (count + per_round - 1) / per_round;
}

// The part of `count` elements that round `round` of `per_round` elements carries.
constexpr Range round_range(std::size_t count, std::size_t per_round, std::uint64_t round) noexcept {
  const std::size_t begin = std::min(count, static_cast<std::size_t>(round) * per_round);
  return {begin, std::min(count, begin + per_round)};
}

}  // namespace xoe::shm

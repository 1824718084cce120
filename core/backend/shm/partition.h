// How an operation is divided into rounds and slices: pure functions of the arguments that all ranks know.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/backend/shm/layout.h"

namespace xoe::shm {

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  constexpr std::size_t size() const noexcept { return end - begin; }
};

// A reduction of up to this many bytes is one-shot: every rank posts its input and reduces all inputs itself, which
// costs one exchange instead of two but reads size x bytes. Two ranks: measured with measure/compare/run.py (at 16 KiB
// one-shot wins for private memory, 0.8 against 1.0 us, and loses for shared, 0.8 against 0.6). More ranks: so that all
// together read as much.
struct EagerLimit {
  int size;
  std::size_t bytes;
};
inline constexpr EagerLimit kEagerReduceLimits[] = {{2, 8 * 1024}, {4, 4 * 1024}, {8, 2 * 1024},
                                                    {16, 1024},    {64, 512},     {kMaxRanks, 64}};

constexpr std::size_t eager_reduce_limit(int size) noexcept {
  for (const EagerLimit& limit : kEagerReduceLimits)
    if (size <= limit.size) return limit.bytes;
  return 0;
}

// Copies (broadcast, allgather, alltoall) read each byte once either way.
inline constexpr std::size_t kEagerCopyLimit = 16 * 1024;
static_assert(kEagerCopyLimit + kMaxRanks * sizeof(std::size_t) <= kEagerBytes);
static_assert(kEagerReduceLimits[0].bytes <= kEagerBytes);

// Slice `rank` of `count` elements for `ranks` ranks, cut at cache lines so that no two ranks write to one line.
constexpr Range slice(std::size_t count, std::size_t element_bytes, int rank, int ranks) noexcept {
  const std::size_t per_line = kLine / element_bytes;
  const std::size_t lines = (count + per_line - 1) / per_line;
  const auto r = static_cast<std::size_t>(rank), n = static_cast<std::size_t>(ranks);
  return {std::min(count, lines * r / n * per_line), std::min(count, lines * (r + 1) / n * per_line)};
}

// Elements per round when a chunk holds one range (allreduce, allgather) ...
constexpr std::size_t chunk_elements(std::size_t element_bytes) noexcept { return kChunkBytes / element_bytes; }
// ... and when it holds a block for each rank (reduce-scatter, alltoall).
constexpr std::size_t block_elements(std::size_t element_bytes, int size) noexcept {
  return kChunkBytes / static_cast<std::size_t>(size) / kLine * kLine / element_bytes;
}

// Elements per round of a staged broadcast. Its root packs while the others fetch what it packed before, so that small
// pieces keep the ring in the caches next to the cores. Two ranks, 16 MiB: pieces of 256 KiB take 1,050 us, of 64 KiB
// 530, 32 KiB 515, 16 KiB 450 to 620. But a lap of the ring needs a turn of every rank: 16 ranks on two cores take 25
// to 45 % longer with small pieces.
constexpr std::size_t broadcast_elements(std::size_t element_bytes, bool large) noexcept {
  return (large ? kChunkBytes : kBroadcastPieceBytes) / element_bytes;
}

// The buffers of a rank that copies more than this do not stay in its part of the cache: what it copies for the caller
// is stored past it.
inline constexpr std::size_t kCachedBytes = std::size_t{16} << 20;

// Elements that one rank reduces or copies in a round that is not staged. Rounds then only bound the time between two
// checks whether the group has failed.
inline constexpr std::size_t kDirectBytes = std::size_t{32} << 20;
constexpr std::size_t direct_elements(std::size_t element_bytes) noexcept { return kDirectBytes / element_bytes; }

constexpr std::uint64_t rounds_for(std::size_t count, std::size_t per_round) noexcept {
  return per_round == 0 ? 0 : (count + per_round - 1) / per_round;
}

// The elements of `count` that round `round` of `per_round` elements covers.
constexpr Range round_range(std::size_t count, std::size_t per_round, std::uint64_t round) noexcept {
  const std::size_t begin = std::min(count, static_cast<std::size_t>(round) * per_round);
  return {begin, std::min(count, begin + per_round)};
}

}  // namespace xoe::shm

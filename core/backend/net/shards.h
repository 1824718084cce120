// How a buffer is divided among members that each reduce or forward a shard of it, in rounds of bounded messages.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace xoe::net {

// Member m owns shard m, which is sent in chunks, one in each round. All numbers count elements.
class Shards {
 public:
  struct Chunk {
    std::size_t offset = 0, count = 0;
  };

  explicit Shards(int members) : bounds_(static_cast<std::size_t>(members) + 1) {}

  // Equal shards of whole multiples of `grain`; the last ones may be shorter or empty. excluded: a member without a
  // shard, or -1. chunk_size: the most elements of a chunk.
  void cut_evenly(std::size_t count, int excluded, std::size_t grain, std::size_t chunk_size);
  // Shard m has counts[m] elements.
  void cut(std::span<const std::size_t> counts, std::size_t chunk_size);

  std::size_t rounds() const noexcept { return rounds_; }
  std::size_t chunk_size() const noexcept { return chunk_size_; }
  // The chunk of member m's shard in this round; past its last one it is empty.
  Chunk chunk(int m, std::size_t round) const noexcept;
  // The number of chunks in member m's shard.
  std::size_t chunks(int m) const noexcept;

 private:
  void plan(std::size_t chunk_size);
  std::size_t begin(int m) const noexcept { return bounds_[static_cast<std::size_t>(m)]; }

  std::vector<std::size_t> bounds_;  // shard m is [bounds_[m], bounds_[m + 1])
  std::size_t chunk_size_ = 1, rounds_ = 0;
};

}  // namespace xoe::net

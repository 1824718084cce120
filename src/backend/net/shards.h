// How a buffer is cut when each member reduces or passes on a part of it, in rounds of bounded messages.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace xoe::net {

// All numbers count elements.
class Shards {
 public:
  struct Piece {
    std::size_t offset = 0, count = 0;
  };

  explicit Shards(int members) : bounds_(static_cast<std::size_t>(members) + 1) {}

  // Equal shards of whole multiples of `grain`; the last ones may be shorter or empty. leaving_out: a member that gets
  // none, or -1. segment: what a member's shard gives to one round at most.
  void cut_evenly(std::size_t count, int leaving_out, std::size_t grain, std::size_t segment);
  // By member.
  void cut(std::span<const std::size_t> counts, std::size_t segment);

  std::size_t rounds() const noexcept { return rounds_; }
  std::size_t segment() const noexcept { return segment_; }
  // What member m's shard gives to this round.
  Piece piece(int m, std::size_t round) const noexcept;
  // In how many rounds member m's shard has a piece.
  std::size_t pieces(int m) const noexcept;

 private:
  void plan(std::size_t segment);
  std::size_t begin(int m) const noexcept { return bounds_[static_cast<std::size_t>(m)]; }

  std::vector<std::size_t> bounds_;  // shard m is [bounds_[m], bounds_[m + 1])
  std::size_t segment_ = 1, rounds_ = 0;
};

}  // namespace xoe::net

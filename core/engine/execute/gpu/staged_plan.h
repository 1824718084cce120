// How a collective on GPU memory passes through a buffer that is smaller than its tensors: a pure function.
#pragma once

#include <cstddef>
#include <vector>

#include "core/backend/collective.h"

namespace xoe::engine {

// Elements of one array of the collective, and their place in the buffer.
struct StagedPiece {
  std::size_t array = 0;  // of its segments; 0 without them
  std::size_t first = 0;  // element of the array
  std::size_t count = 0;
  std::size_t at = 0;  // element of the buffer
};

// One collective of the host on the buffer.
struct StagedRound {
  std::vector<StagedPiece> in, out;  // to copy before it, and after it
  std::size_t in_at = 0, in_count = 0;
  std::size_t out_at = 0, out_count = 0;
  std::vector<std::size_t> send_counts = {}, recv_counts = {};
};

class StagedPlan {
 public:
  // elements: of the buffer. It must have room for one element of each rank, for an alltoall two. The collective's
  // spans must outlive the plan.
  StagedPlan(const Collective& collective, std::size_t rank, std::size_t size, std::size_t elements);

  // The same on all ranks, except of an alltoall: there the largest of all ranks counts, and later rounds are empty.
  std::size_t rounds() const noexcept { return rounds_; }
  StagedRound round(std::size_t number) const;

 private:
  StagedRound whole_round(std::size_t number) const;
  StagedRound gather_round(std::size_t number) const;
  StagedRound scatter_round(std::size_t number) const;
  StagedRound exchange_round(std::size_t number) const;
  std::vector<std::size_t> counts_of(std::span<const std::size_t> counts, std::size_t number) const;

  const Collective collective_;
  const std::size_t rank_, size_;
  std::size_t share_ = 0;  // elements that one rank has in a round
  std::size_t rounds_ = 0;
};

}  // namespace xoe::engine

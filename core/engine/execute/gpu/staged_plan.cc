#include "core/engine/execute/gpu/staged_plan.h"

#include <algorithm>

namespace xoe::engine {
namespace {

std::size_t rounds_of(std::size_t count, std::size_t share) { return (count + share - 1) / share; }

std::size_t largest(std::span<const std::size_t> counts) {
  return counts.empty() ? 0 : *std::ranges::max_element(counts);
}

// Pieces of all ranks, one after the other in the buffer from `at` on. counts: of each rank's array, which lie one
// after the other too; part: of this round.
std::vector<StagedPiece> pieces_of(std::span<const std::size_t> counts, const std::vector<std::size_t>& part,
                                   std::size_t begin, std::size_t at) {
  std::vector<StagedPiece> pieces;
  std::size_t first = 0;
  for (std::size_t r = 0; r < part.size(); ++r) {
    if (part[r] != 0) pieces.push_back({.first = first + begin, .count = part[r], .at = at});
    first += counts[r];
    at += part[r];
  }
  return pieces;
}

std::size_t sum(const std::vector<std::size_t>& counts, std::size_t end) {
  std::size_t total = 0;
  for (std::size_t r = 0; r < end; ++r) total += counts[r];
  return total;
}

}  // namespace

StagedPlan::StagedPlan(const Collective& collective, std::size_t rank, std::size_t size, std::size_t elements)
    : collective_(collective), rank_(rank), size_(size) {
  switch (collective.kind) {
    case CollectiveKind::kAllgather:
    case CollectiveKind::kReduceScatter:
      share_ = elements / size;
      rounds_ = rounds_of(largest(collective.send_counts), share_);
      break;
    case CollectiveKind::kAlltoall:
      share_ = elements / (2 * size);
      rounds_ = rounds_of(std::max(largest(collective.send_counts), largest(collective.recv_counts)), share_);
      break;
    default: share_ = elements; rounds_ = rounds_of(collective.in_count, share_);
  }
}

StagedRound StagedPlan::round(std::size_t number) const {
  switch (collective_.kind) {
    case CollectiveKind::kAllgather: return gather_round(number);
    case CollectiveKind::kReduceScatter: return scatter_round(number);
    case CollectiveKind::kAlltoall: return exchange_round(number);
    default: return whole_round(number);
  }
}

std::vector<std::size_t> StagedPlan::counts_of(std::span<const std::size_t> counts, std::size_t number) const {
  std::vector<std::size_t> part;
  const std::size_t begin = number * share_;
  for (const std::size_t count : counts) part.push_back(count <= begin ? 0 : std::min(count - begin, share_));
  return part;
}

// Allreduce and broadcast.
StagedRound StagedPlan::whole_round(std::size_t number) const {
  StagedRound round;
  const std::size_t begin = number * share_, end = std::min(begin + share_, collective_.in_count);
  const auto add = [&](std::size_t array, std::size_t array_begin, std::size_t count) {
    const std::size_t low = std::max(begin, array_begin), high = std::min(end, array_begin + count);
    if (low < high)
      round.in.push_back({.array = array, .first = low - array_begin, .count = high - low, .at = low - begin});
  };
  std::size_t array_begin = 0;
  for (std::size_t i = 0; i < collective_.segments.size(); ++i) {
    add(i, array_begin, collective_.segments[i].count);
    array_begin += collective_.segments[i].count;
  }
  if (collective_.segments.empty()) add(0, 0, collective_.in_count);
  round.out = round.in;
  round.in_count = round.out_count = end - begin;
  return round;
}

StagedRound StagedPlan::gather_round(std::size_t number) const {
  StagedRound round;
  round.send_counts = counts_of(collective_.send_counts, number);
  round.out = pieces_of(collective_.send_counts, round.send_counts, number * share_, 0);
  round.out_count = sum(round.send_counts, size_);
  round.in_at = sum(round.send_counts, rank_);
  round.in_count = round.send_counts[rank_];
  if (round.in_count != 0) round.in.push_back({.first = number * share_, .count = round.in_count, .at = round.in_at});
  return round;
}

StagedRound StagedPlan::scatter_round(std::size_t number) const {
  StagedRound round;
  round.send_counts = counts_of(collective_.send_counts, number);
  round.in = pieces_of(collective_.send_counts, round.send_counts, number * share_, 0);
  round.in_count = sum(round.send_counts, size_);
  round.out_at = sum(round.send_counts, rank_);
  round.out_count = round.send_counts[rank_];
  if (round.out_count != 0)
    round.out.push_back({.first = number * share_, .count = round.out_count, .at = round.out_at});
  return round;
}

StagedRound StagedPlan::exchange_round(std::size_t number) const {
  StagedRound round;
  round.send_counts = counts_of(collective_.send_counts, number);
  round.recv_counts = counts_of(collective_.recv_counts, number);
  round.out_at = size_ * share_;
  round.in = pieces_of(collective_.send_counts, round.send_counts, number * share_, 0);
  round.out = pieces_of(collective_.recv_counts, round.recv_counts, number * share_, round.out_at);
  round.in_count = sum(round.send_counts, size_);
  round.out_count = sum(round.recv_counts, size_);
  return round;
}

}  // namespace xoe::engine

#include "backend/net/shards.h"

#include <algorithm>

namespace xoe::net {

void Shards::cut_evenly(std::size_t count, int leaving_out, std::size_t grain, std::size_t segment) {
  const std::size_t members = bounds_.size() - 1, parts = leaving_out < 0 ? members : members - 1;
  const std::size_t share = ((count + parts - 1) / parts + grain - 1) / grain * grain;
  std::size_t end = 0;
  for (std::size_t m = 0; m < members; ++m) {
    bounds_[m] = end;
    if (static_cast<int>(m) != leaving_out) end = std::min(count, end + share);
  }
  bounds_.back() = count;
  plan(segment);
}

void Shards::cut(std::span<const std::size_t> counts, std::size_t segment) {
  bounds_[0] = 0;
  for (std::size_t m = 0; m < counts.size(); ++m) bounds_[m + 1] = bounds_[m] + counts[m];
  plan(segment);
}

void Shards::plan(std::size_t segment) {
  segment_ = segment;
  rounds_ = 0;
  for (std::size_t m = 0; m + 1 < bounds_.size(); ++m) rounds_ = std::max(rounds_, pieces(static_cast<int>(m)));
}

Shards::Piece Shards::piece(int m, std::size_t round) const noexcept {
  const std::size_t end = begin(m + 1), offset = std::min(end, begin(m) + round * segment_);
  return {offset, std::min(segment_, end - offset)};
}

std::size_t Shards::pieces(int m) const noexcept { return (begin(m + 1) - begin(m) + segment_ - 1) / segment_; }

}  // namespace xoe::net

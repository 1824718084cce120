#include "core/backend/net/shards.h"

#include <algorithm>

namespace xoe::net {

void Shards::cut_evenly(std::size_t count, int excluded, std::size_t grain, std::size_t chunk_size) {
  const std::size_t members = bounds_.size() - 1, parts = excluded < 0 ? members : members - 1;
  const std::size_t share = ((count + parts - 1) / parts + grain - 1) / grain * grain;
  std::size_t end = 0;
  for (std::size_t m = 0; m < members; ++m) {
    bounds_[m] = end;
    if (static_cast<int>(m) != excluded) end = std::min(count, end + share);
  }
  bounds_.back() = count;
  plan(chunk_size);
}

void Shards::cut(std::span<const std::size_t> counts, std::size_t chunk_size) {
  bounds_[0] = 0;
  for (std::size_t m = 0; m < counts.size(); ++m) bounds_[m + 1] = bounds_[m] + counts[m];
  plan(chunk_size);
}

void Shards::plan(std::size_t chunk_size) {
  chunk_size_ = chunk_size;
  rounds_ = 0;
  for (std::size_t m = 0; m + 1 < bounds_.size(); ++m) rounds_ = std::max(rounds_, chunks(static_cast<int>(m)));
}

Shards::Chunk Shards::chunk(int m, std::size_t round) const noexcept {
  const std::size_t end = begin(m + 1), offset = std::min(end, begin(m) + round * chunk_size_);
  return {offset, std::min(chunk_size_, end - offset)};
}

std::size_t Shards::chunks(int m) const noexcept { return (begin(m + 1) - begin(m) + chunk_size_ - 1) / chunk_size_; }

}  // namespace xoe::net

#include "engine/negotiate/history.h"

#include <algorithm>

#include "engine/negotiate/bytes.h"

namespace xoe::engine {
namespace {

constexpr std::size_t kMostGroups = 4096;  // in a period; what looking for one may cost
constexpr std::size_t kFirstPause = 64;
constexpr std::size_t kLongestPause = std::size_t{1} << 16;

std::uint64_t hash_of(std::uint32_t id) {
  StableHash hash;
  hash.add(std::uint64_t{id});
  return hash.value();
}

}  // namespace

void DecisionHistory::add_group(std::span<const std::uint32_t> ids) {
  if (ids.empty()) return;
  if (ids_.size() + ids.size() > kLongest) clear();
  starts_.push_back(ids_.size());
  for (const std::uint32_t id : ids) {
    const auto [place, is_new] = last_.try_emplace(id, ids_.size());
    repeated_at_ = is_new ? ids_.size() + 1 : place->second;
    place->second = ids_.size();
    ids_.push_back(id);
    sums_.push_back(sums_.back() + hash_of(id));
  }
  pause_ -= std::min(pause_, ids.size());
}

void DecisionHistory::clear() {
  ids_.clear();
  sums_.assign(1, 0);
  starts_.clear();
  last_.clear();
}

bool DecisionHistory::repeats(std::size_t start) const {
  const std::size_t end = ids_.size();
  const std::size_t before = start - (end - start);
  if (sums_[end] - sums_[start] != sums_[start] - sums_[before]) return false;
  const auto sorted = [&](std::size_t first, std::size_t last) {
    std::vector<std::uint32_t> ids(ids_.begin() + static_cast<std::ptrdiff_t>(first),
                                   ids_.begin() + static_cast<std::ptrdiff_t>(last));
    std::sort(ids.begin(), ids.end());
    return ids;
  };
  return sorted(before, start) == sorted(start, end);
}

std::optional<std::vector<std::vector<std::uint32_t>>> DecisionHistory::period() const {
  const std::size_t end = ids_.size();
  if (end == 0 || pause_ > 0 || repeated_at_ >= end) return std::nullopt;
  const std::size_t oldest = starts_.size() - std::min(starts_.size(), kMostGroups);
  for (std::size_t g = starts_.size(); g-- > oldest;) {
    const std::size_t length = end - starts_[g];
    if (length > starts_[g]) break;
    // The last id is in both periods, so these reach back to where it was before.
    if (length < shortest_ || 2 * length < end - repeated_at_ || !repeats(starts_[g])) continue;
    std::vector<std::vector<std::uint32_t>> groups;
    for (std::size_t i = g; i < starts_.size(); ++i) {
      const std::size_t stop = i + 1 < starts_.size() ? starts_[i + 1] : end;
      groups.emplace_back(ids_.begin() + static_cast<std::ptrdiff_t>(starts_[i]),
                          ids_.begin() + static_cast<std::ptrdiff_t>(stop));
    }
    return groups;
  }
  return std::nullopt;
}

void DecisionHistory::broke(std::size_t length, std::uint64_t followed) {
  clear();
  if (followed >= 2 * std::uint64_t{length}) {
    shortest_ = 1;
    next_pause_ = 0;
    return;
  }
  // Beyond that no period fits twice, so that what a long one is made of gets another chance.
  shortest_ = length < kLongest / 4 ? length + 1 : 1;
  pause_ = next_pause_;
  next_pause_ = std::clamp(next_pause_ * 2, kFirstPause, kLongestPause);
}

}  // namespace xoe::engine

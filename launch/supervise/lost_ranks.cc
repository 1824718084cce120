#include "launch/supervise/lost_ranks.h"

#include <algorithm>

namespace xoe::launch {

void LostRanks::note(int teller, const std::vector<int>& lost, Clock::time_point now) {
  tellers_.insert(teller);
  for (const int slot : lost) lost_.emplace(slot, now);
}

void LostRanks::ended(int slot) {
  lost_.erase(slot);
  tellers_.erase(slot);
}

void LostRanks::clear() {
  lost_.clear();
  tellers_.clear();
}

std::optional<LostRanks::Clock::time_point> LostRanks::next() const {
  if (lost_.empty()) return std::nullopt;
  return std::ranges::min_element(lost_, {}, [](const auto& one) { return one.second; })->second + kMayStillEnd;
}

std::optional<LostRanks::Verdict> LostRanks::take_due(Clock::time_point now) {
  const auto due = next();
  if (!due || now < *due) return std::nullopt;
  Verdict verdict;
  for (const auto& [slot, since] : lost_)
    if (!tellers_.contains(slot)) verdict.stuck.push_back(slot);
  verdict.parted = verdict.stuck.empty();
  clear();
  return verdict;
}

}  // namespace xoe::launch

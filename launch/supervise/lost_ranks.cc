#include "launch/supervise/lost_ranks.h"

#include <algorithm>

namespace xoe::launch {

void LostRanks::note(int teller, const std::vector<int>& lost, bool silent, Clock::time_point now) {
  tellers_.insert(teller);
  for (const int slot : lost) {
    Lost& one = lost_.emplace(slot, Lost{.since = now}).first->second;
    one.silent = one.silent || silent;
  }
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
  const auto since = [](const auto& one) { return one.second.since; };
  return since(*std::ranges::min_element(lost_, {}, since)) + kMayStillEnd;
}

std::optional<LostRanks::Verdict> LostRanks::take_due(Clock::time_point now) {
  const auto due = next();
  if (!due || now < *due) return std::nullopt;
  Verdict verdict{.stuck = {}, .parted = true};
  for (auto& [slot, lost] : lost_) {
    if (tellers_.contains(slot)) continue;
    verdict.parted = false;
    if (lost.silent) verdict.stuck.push_back(slot);
  }
  if (!verdict.parted && verdict.stuck.empty()) {  // those that closed their connections may be about to end
    for (auto& [slot, lost] : lost_) lost.since = now;
    return std::nullopt;
  }
  clear();
  return verdict;
}

}  // namespace xoe::launch

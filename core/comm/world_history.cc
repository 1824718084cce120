#include "core/comm/world_history.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/text.h"
#include "core/bootstrap/failing_rank.h"

namespace xoe {
namespace {

constexpr std::size_t kMostOfCause = 300;  // bytes: names of a timeline have a limit

bool has(const std::vector<int>& numbers, int number) { return std::ranges::find(numbers, number) != numbers.end(); }

// Where the number of ranks never changes, a rank has one slot.
std::vector<int> slots_of(const WorldRanks& ranks) {
  if (!ranks.slots.empty()) return ranks.slots;
  std::vector<int> slots(static_cast<std::size_t>(ranks.size));
  std::iota(slots.begin(), slots.end(), 0);
  return slots;
}

// The ranks of a world with (or without) these slots.
std::vector<int> ranks_in(const WorldRanks& ranks, const std::vector<int>& slots, bool with) {
  const std::vector<int> all = slots_of(ranks);
  std::vector<int> found;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (has(slots, all[rank]) == with) found.push_back(static_cast<int>(rank));
  return found;
}

std::string named(const std::vector<int>& ranks, std::string_view what) {
  return fmt::format("{} {} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "), what);
}

}  // namespace

std::string describe_world(const WorldRanks& before, const WorldRanks& now, const WorldLoss& loss) {
  const std::vector<int> told = ranks_in(before, loss.slots, true);
  std::vector<int> lost, left;
  for (const int rank : ranks_in(before, slots_of(now), false)) (has(told, rank) ? lost : left).push_back(rank);
  // The error may name none of them, as that of a broken connection, or one whose slot has a rank again.
  if (!loss.cause.empty() && lost.empty()) lost = left.empty() ? told : std::exchange(left, {});
  std::vector<std::string> parts;
  if (!loss.cause.empty()) {
    const std::string cause = loss.cause.substr(0, kMostOfCause) + (loss.cause.size() > kMostOfCause ? "..." : "");
    parts.push_back(lost.empty() ? cause : named(lost, "lost: ") + cause);
  }
  if (!left.empty()) parts.push_back(named(left, "left"));
  if (const auto came = ranks_in(now, slots_of(before), false); !came.empty()) parts.push_back(named(came, "joined"));
  if (parts.empty()) parts.emplace_back("formed again");
  return fmt::format("world {}: {} ({})", now.version, counted(now.size, "rank"), fmt::join(parts, "; "));
}

WorldHistory& WorldHistory::of_process() {
  static WorldHistory history;
  return history;
}

void WorldHistory::lost(std::string_view cause) {
  const std::lock_guard lock(mutex_);
  if (!loss_.cause.empty()) return;
  loss_ = {.cause = std::string(cause), .at = Clock::now()};
  if (!last_) return;
  const std::vector<int> slots = slots_of(*last_);
  for (const int rank : bootstrap::ranks_named(cause))
    if (static_cast<std::size_t>(rank) < slots.size()) loss_.slots.push_back(slots[static_cast<std::size_t>(rank)]);
}

void WorldHistory::joined(const WorldRanks& now, Clock::time_point began) {
  const std::lock_guard lock(mutex_);
  WorldLoss loss = std::exchange(loss_, {});
  if (last_ && last_->version < now.version) {
    if (!mark_) {
      marked_ = last_;
      marked_loss_ = std::move(loss);
    } else if (!loss.cause.empty()) {
      // The world before broke too, before anything was built on it, and is passed over.
      marked_loss_.cause += (marked_loss_.cause.empty() ? "" : "; ") + loss.cause;
      marked_loss_.slots.insert(marked_loss_.slots.end(), loss.slots.begin(), loss.slots.end());
      if (marked_loss_.at == Clock::time_point()) marked_loss_.at = loss.at;
    }
    const auto left = mark_ ? mark_->began : began;
    mark_ = WorldMark{.text = describe_world(*marked_, now, marked_loss_),
                      .note = marked_->rank == now.rank ? "" : fmt::format("rank {} before", marked_->rank),
                      .began = marked_loss_.cause.empty() ? left : std::min(left, marked_loss_.at),
                      .formed = {}};
  }
  last_ = now;
}

std::optional<WorldMark> WorldHistory::take_mark() {
  const std::lock_guard lock(mutex_);
  auto mark = std::exchange(mark_, std::nullopt);
  if (mark) mark->formed = Clock::now();
  return mark;
}

int WorldHistory::version() const {
  const std::lock_guard lock(mutex_);
  return last_ ? last_->version : 0;
}

bool WorldHistory::wrote_before(const std::string& timeline) const {
  const std::lock_guard lock(mutex_);
  return timeline == timeline_ && last_ && timeline_version_ < last_->version;
}

std::optional<ClockOffset> WorldHistory::earlier_clock() const {
  const std::lock_guard lock(mutex_);
  return last_ && last_->version > 0 ? clock_ : std::nullopt;
}

void WorldHistory::note_clock(const ClockOffset& clock) {
  const std::lock_guard lock(mutex_);
  clock_ = clock;
}

bool WorldHistory::may_follow_others(const std::string& timeline) const {
  const std::lock_guard lock(mutex_);
  return timeline != timeline_ && last_ && last_->version > 0;
}

void WorldHistory::writes(const std::string& timeline) {
  const std::lock_guard lock(mutex_);
  timeline_ = timeline;
  timeline_version_ = last_ ? last_->version : 0;
}

}  // namespace xoe

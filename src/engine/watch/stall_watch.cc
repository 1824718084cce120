#include "engine/watch/stall_watch.h"

#include <algorithm>

#include "base/error.h"

namespace xoe::engine {
namespace {

constexpr int kMaskBits = 64;

PendingTensor describe(ProcessSet& set, const ProcessSet::Waiting& waiting, EngineClock::time_point now) {
  PendingTensor tensor{.name = waiting.submission->name,
                       .set = set.id(),
                       .submitted = {},
                       .missing = waiting.missing,
                       .age = now - waiting.submission->submitted};
  // Of this host: what the ranks of others have submitted is not known here.
  const Agreement& agreement = set.agreement();
  for (int r = 0; r < agreement.host_ranks(); ++r)
    if (const int rank = agreement.world_rank(r);
        std::none_of(waiting.missing.begin(), waiting.missing.end(), [&](const auto& m) { return m.rank == rank; }))
      tensor.submitted.push_back(rank);
  return tensor;
}

std::uint64_t to_mask(const std::vector<MissingRank>& missing) {
  std::uint64_t mask = 0;
  for (const MissingRank& one : missing)
    if (one.rank < kMaskBits) mask |= std::uint64_t{1} << one.rank;
  return mask;
}

// The wait that a rank shows; without missing ranks if there is none, or if the rank is writing it now.
BlockedWait read_status(const RankStatus& status, int rank) {
  BlockedWait wait{.rank = rank, .name = {}, .set = kWorldSet, .missing = {}};
  const auto before = status.sequence.load(std::memory_order_acquire);
  const std::uint64_t mask = status.blocked_mask.load(std::memory_order_acquire);
  wait.set = status.blocked_set.load(std::memory_order_acquire);
  for (const auto& c : status.blocked_name)
    if (const char letter = c.load(std::memory_order_acquire); letter != '\0')
      wait.name += letter;
    else
      break;
  if (before % 2 != 0 || status.sequence.load(std::memory_order_acquire) != before) return wait;
  for (int r = 0; r < kMaskBits; ++r)
    if ((mask >> r & 1) != 0) wait.missing.push_back(r);
  return wait;
}

}  // namespace

void StallWatch::block(const Submission& submission) {
  const std::lock_guard lock(mutex_);
  blocked_.push_back(&submission);
}

void StallWatch::unblock(const Submission& submission) {
  const std::lock_guard lock(mutex_);
  blocked_.erase(std::find(blocked_.begin(), blocked_.end(), &submission));
  if (blocked_.empty() && status_ != nullptr) status_->blocked_mask.store(0, std::memory_order_release);
}

std::chrono::nanoseconds StallWatch::period() const {
  std::chrono::nanoseconds period = std::chrono::seconds(1);
  for (const auto limit : {options_.stall_warning, options_.stall_limit})
    if (limit.count() > 0) period = std::min(period, limit / 2);
  return std::max<std::chrono::nanoseconds>(period, std::chrono::milliseconds(1));
}

std::size_t StallWatch::look(std::span<ProcessSet* const> sets) {
  const auto now = EngineClock::now();
  std::vector<PendingTensor> stalled;
  std::size_t past_warning = 0;
  std::vector<ProcessSet::Waiting> all;
  for (ProcessSet* set : sets) {
    if (set->failed() || set->pending() == 0) continue;
    auto waiting = set->waiting();
    for (const ProcessSet::Waiting& w : waiting) {
      const auto age = now - w.submission->submitted;
      if (options_.stall_warning.count() > 0 && age >= options_.stall_warning) {
        ++past_warning;
        const bool reports = !w.missing.empty() || set->agreement().speaks_for_host();
        if (reports && !std::exchange(w.submission->stall_reported, true)) stalled.push_back(describe(*set, w, now));
      }
      if (options_.stall_limit.count() > 0 && age >= options_.stall_limit) {
        set->abort(Error(Code::kTimeout, stall_line(describe(*set, w, now))));
        break;
      }
    }
    all.insert(all.end(), std::make_move_iterator(waiting.begin()), std::make_move_iterator(waiting.end()));
  }
  for (const std::string& line : stall_report(std::move(stalled))) options_.warn(line);
  if (!sets.empty() && !sets[0]->failed()) {
    publish(*sets[0], all);
    look_for_deadlocks(*sets[0]);
  }
  return past_warning;
}

void StallWatch::publish(ProcessSet& world, const std::vector<ProcessSet::Waiting>& waiting) {
  const std::lock_guard lock(mutex_);
  const ProcessSet::Waiting* chosen = nullptr;
  for (const auto& w : waiting)
    if (std::find(blocked_.begin(), blocked_.end(), w.submission.get()) != blocked_.end()) chosen = &w;
  status_ = &world.agreement().own_status();
  RankStatus& status = *status_;
  status.sequence.fetch_add(1, std::memory_order_acq_rel);
  status.blocked_mask.store(chosen == nullptr ? 0 : to_mask(chosen->missing), std::memory_order_release);
  if (chosen != nullptr) {
    status.blocked_set.store(chosen->submission->process_set, std::memory_order_release);
    const std::string& name = chosen->submission->name;
    for (std::size_t i = 0; i < kBlockedNameBytes; ++i)
      status.blocked_name[i].store(i < name.size() && i + 1 < kBlockedNameBytes ? name[i] : '\0',
                                   std::memory_order_release);
  }
  status.sequence.fetch_add(1, std::memory_order_acq_rel);
}

void StallWatch::look_for_deadlocks(ProcessSet& world) {
  const Agreement& agreement = world.agreement();
  std::vector<BlockedWait> waits;
  for (int r = 0; r < agreement.host_ranks(); ++r)
    if (auto wait = read_status(agreement.status(r), agreement.world_rank(r)); !wait.missing.empty())
      waits.push_back(std::move(wait));
  std::string found;
  for (const WaitCycle& cycle : find_wait_cycles(waits)) {
    const bool concerns = std::any_of(cycle.begin(), cycle.end(), [&](const auto& wait) { return wait.rank == rank_; });
    if (concerns && cycle.size() > 1) found = deadlock_line(cycle);
  }
  if (!found.empty() && found == last_cycle_ && found != reported_cycle_) {
    reported_cycle_ = found;
    options_.warn(found);
  }
  last_cycle_ = found;
}

}  // namespace xoe::engine

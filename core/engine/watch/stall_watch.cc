#include "core/engine/watch/stall_watch.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/engine/watch/shown_wait.h"

namespace xoe::engine {
namespace {

constexpr int kLooksPerLimit = 20;

}  // namespace

void StallWatch::block(const Submission& submission) {
  const std::lock_guard lock(mutex_);
  if (blocked_.empty()) outer_wait_ = launcher_.begin(bootstrap::WaitKind::kPeers);
  blocked_.push_back(&submission);
}

void StallWatch::unblock(const Submission& submission) {
  const std::lock_guard lock(mutex_);
  blocked_.erase(std::find(blocked_.begin(), blocked_.end(), &submission));
  if (!blocked_.empty()) return;
  launcher_.end(outer_wait_);
  if (status_ != nullptr) show_no_wait(*status_);
}

std::chrono::nanoseconds StallWatch::period() const {
  std::chrono::nanoseconds period = std::chrono::seconds(1);
  if (options_.stall_warning.count() > 0) period = std::min(period, options_.stall_warning / 2);
  if (options_.stall_limit.count() > 0) period = std::min(period, options_.stall_limit / kLooksPerLimit);
  period =
      std::min(period, std::chrono::nanoseconds(shortest_timeout_ns_.load(std::memory_order_relaxed)) / kLooksPerLimit);
  return std::max<std::chrono::nanoseconds>(period, std::chrono::milliseconds(1));
}

void StallWatch::expect(std::chrono::nanoseconds timeout) {
  std::int64_t shortest = shortest_timeout_ns_.load(std::memory_order_relaxed);
  while (timeout.count() > 0 && timeout.count() < shortest &&
         !shortest_timeout_ns_.compare_exchange_weak(shortest, timeout.count(), std::memory_order_relaxed)) {
  }
}

void StallWatch::look(std::span<ProcessSet* const> sets) {
  const auto now = EngineClock::now();
  if (now < last_look_ + period()) return;
  last_look_ = now;
  if (!sets.empty()) world_ = &sets[0]->host_group();
  activities_.clear();
  std::vector<PendingTensor> stalled;
  std::size_t past_warning = 0;
  std::vector<ProcessSet::Waiting> all;
  for (ProcessSet* set : sets) {
    if (set->failed() || set->pending() == 0) continue;
    auto waiting = set->waiting();
    for (const ProcessSet::Waiting& w : waiting) {
      if (options_.stall_warning.count() > 0 && now - w.submission->progress.submitted >= options_.stall_warning)
        ++past_warning;
      check(*set, w, now, stalled);
      if (set->failed()) break;
    }
    all.insert(all.end(), std::make_move_iterator(waiting.begin()), std::make_move_iterator(waiting.end()));
  }
  for (const std::string& line : stall_report(std::move(stalled))) options_.warn(line);
  if (!sets.empty() && !sets[0]->failed()) {
    publish(*sets[0], all);
    look_for_deadlocks(*sets[0]);
  }
  metrics_.stalled(past_warning);
}

void StallWatch::check(ProcessSet& set, const ProcessSet::Waiting& waiting, EngineClock::time_point now,
                       std::vector<PendingTensor>& stalled) {
  WaitLimits limits{.warning = options_.stall_warning,
                    .limit = options_.stall_limit,
                    .spares_computing = options_.stall_spares_computing};
  const std::chrono::nanoseconds own = waiting.submission->operation().timeout;
  if (own.count() > 0) {
    limits.limit = own;
    limits.spares_computing = false;
  }
  if (waiting.missing.empty()) {
    // The leader of the host knows more, and the hosts of the missing ranks know most: they come first.
    if (!set.agreement().speaks_for_host()) {
      limits.warning = {};
      if (limits.spares_computing) return;
    }
    limits.limit += limits.limit / 4;
  }
  const auto used = [&] { return used_by_missing(set, waiting.missing); };
  switch (waiting.submission->progress.stall_timer.check(limits, now - waiting.submission->progress.submitted, used)) {
    case StallTimer::Action::kNothing: return;
    case StallTimer::Action::kWarning: return stalled.push_back(describe(set, waiting, now));
    case StallTimer::Action::kLimit:
      return set.abort(Error(Code::kTimeout, limit_line(stall_line(describe(set, waiting, now)), own)));
  }
}

// PyTorch's programs look for "Timed out" where an operation has a timeout of its own.
std::string StallWatch::limit_line(const std::string& stall, std::chrono::nanoseconds own) const {
  if (own.count() > 0) return fmt::format("Timed out after {}: {}", human_seconds(own), stall);
  return fmt::format("{}; the limit is {} (XOE_STALL_LIMIT)", stall, human_seconds(options_.stall_limit));
}

// The CPU time of the ranks that may be missing: where that is not known, those of other hosts.
CpuUse StallWatch::used_by_missing(const ProcessSet& set, const std::vector<MissingRank>& missing) {
  CpuUse all;
  for (const MissingRank& one : missing) all.add(activity(one.rank));
  const auto host_of = [this](int rank) { return world_->hosts()[static_cast<std::size_t>(rank)]; };
  if (missing.empty())
    for (const int rank : set.ranks())
      if (host_of(rank) != host_of(rank_)) all.add(activity(rank));
  return all;
}

// Many tensors may wait for one rank.
const std::optional<ProcessActivity>& StallWatch::activity(int rank) {
  const auto [known, added] = activities_.try_emplace(rank);
  if (added) known->second = world_->activity(rank);
  return known->second;
}

PendingTensor StallWatch::describe(ProcessSet& set, const ProcessSet::Waiting& waiting, EngineClock::time_point now) {
  PendingTensor tensor{.name = waiting.submission->operation().name,
                       .set = set.id(),
                       .submitted = {},
                       .missing = waiting.missing,
                       .age = now - waiting.submission->progress.submitted};
  // Of this host: what the ranks of others have submitted is not known here.
  const Agreement& agreement = set.agreement();
  for (int r = 0; r < agreement.host_ranks(); ++r)
    if (const int rank = agreement.world_rank(r);
        std::none_of(waiting.missing.begin(), waiting.missing.end(), [&](const auto& m) { return m.rank == rank; }))
      tensor.submitted.push_back(rank);
  for (MissingRank& one : tensor.missing)
    if (activity(one.rank).value_or(ProcessActivity()).stopped) one.last += "; its process is stopped";
  return tensor;
}

void StallWatch::publish(ProcessSet& world, const std::vector<ProcessSet::Waiting>& waiting) {
  const std::lock_guard lock(mutex_);
  const ProcessSet::Waiting* chosen = nullptr;
  for (const auto& w : waiting)
    if (std::find(blocked_.begin(), blocked_.end(), w.submission.get()) != blocked_.end()) chosen = &w;
  status_ = &world.agreement().own_status();
  if (chosen == nullptr) return show_no_wait(*status_);
  show_wait(*status_, chosen->submission->operation().process_set, chosen->submission->operation().name,
            chosen->missing);
  std::vector<int> missing;
  if (world.size() == launcher_.job_size())  // else the world's ranks have other numbers than the job's
    for (const MissingRank& one : chosen->missing) missing.push_back(one.rank);
  launcher_.explain(chosen->submission->operation().name, missing);
}

void StallWatch::look_for_deadlocks(ProcessSet& world) {
  const Agreement& agreement = world.agreement();
  std::vector<BlockedWait> waits;
  for (int r = 0; r < agreement.host_ranks(); ++r)
    if (auto wait = read_wait(agreement.status(r), agreement.world_rank(r)); !wait.missing.empty())
      waits.push_back(std::move(wait));
  if (const std::string line = deadlocks_.look(waits, rank_); !line.empty()) options_.warn(line);
}

}  // namespace xoe::engine

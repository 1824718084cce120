#include "pool/core/next_event.h"

#include <algorithm>

namespace xoe::pool {
namespace {

// A smaller step back is that of a clock that is kept right.
constexpr Span kStepBack = std::chrono::minutes(1);

}  // namespace

// A short lease is warned about in its last quarter.
Time warning_time(const Policy& policy, const Lease& lease) {
  return lease.expires - std::min(policy.expiry_warning, (lease.expires - lease.begins) / 4);
}

std::optional<Time> next_event(const State& state, const std::map<std::int64_t, Time>& touched) {
  std::optional<Time> next;
  const auto consider = [&](Time time) {
    if (!next || time < *next) next = time;
  };
  for (const auto& [id, lease] : state.leases) {
    if (lease.is_waiting() && lease.starts && !state.awaits_report(lease)) consider(*lease.starts);
    if (const auto found = touched.find(id); found != touched.end() && lease.needs_client())
      consider(found->second + state.policy.waiting_timeout + Span(1));
    if (!lease.is_open()) continue;
    consider(lease.ends());
    if (const auto due = lease.renewal_due()) consider(*due);
    if (!lease.expiry_warned) consider(warning_time(state.policy, lease));
    const IdlePolicy& idle = state.policy.idle;
    if (lease.idle_phase == IdlePhase::kWarned) consider(lease.idle_phase_since + idle.warn_grace);
    if (lease.idle_phase == IdlePhase::kSignalled) consider(lease.idle_phase_since + idle.signal_grace);
  }
  for (const auto& [name, host] : state.hosts)
    if (host.online) consider(host.heard + state.policy.host_timeout + Span(1));
  return next;
}

std::vector<std::int64_t> abandoned_leases(const State& state, std::map<std::int64_t, Time>& touched, Time now) {
  std::vector<std::int64_t> abandoned;
  for (const auto& [id, lease] : state.leases)
    if (lease.needs_client() && now - touched.try_emplace(id, now).first->second > state.policy.waiting_timeout)
      abandoned.push_back(id);
  return abandoned;
}

void move_times(State& state, std::map<std::int64_t, Time>& touched, Span by) {
  for (auto& [id, at] : touched) at += by;
  if (state.begun) *state.begun += by;
  for (auto& [name, host] : state.hosts) {
    host.heard += by;
    host.rival_heard += by;
  }
  for (auto& [uuid, seen] : state.activity)
    for (auto* const at : {&seen.stale_since, &seen.worked})
      if (*at) **at += by;
  for (auto& [id, lease] : state.leases) {
    lease.logged.postponed += by;
    // With the leases that it follows; a reservation is for a time of the clock.
    const bool is_moved = lease.is_waiting() && !lease.request.at;
    if (is_moved && lease.starts) *lease.starts += by;
    if (is_moved && lease.logged.promised) *lease.logged.promised += by;
    if (!lease.is_open()) continue;
    lease.begins += by;
    lease.expires += by;
    lease.logged.expires += by;
    lease.logged.renewed += by;
    lease.logged.idle += by;
    lease.idle_phase_since += by;
    if (!lease.give_way) continue;
    lease.give_way->asked += by;
    if (lease.give_way->by) *lease.give_way->by += by;
  }
}

Time time_of_turn(State& state, std::map<std::int64_t, Time>& touched, Time before, Time now) {
  if (now >= before || before - now <= kStepBack) return std::max(before, now);
  for (auto& [id, at] : touched) at = std::min(at, now);
  if (state.begun) state.begun = std::min(*state.begun, now);
  for (auto& [name, host] : state.hosts) {
    host.heard = std::min(host.heard, now);
    host.rival_heard = std::min(host.rival_heard, now);
  }
  for (auto& [uuid, seen] : state.activity)
    for (auto* const at : {&seen.stale_since, &seen.worked})
      if (*at) *at = std::min(**at, now);
  for (auto& [id, lease] : state.leases) {
    lease.logged.renewed = std::min(lease.logged.renewed, now);
    lease.logged.postponed = std::min(lease.logged.postponed, now);
    lease.logged.idle = std::min(lease.logged.idle, now);
  }
  return now;
}

}  // namespace xoe::pool

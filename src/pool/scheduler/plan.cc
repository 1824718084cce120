#include "pool/scheduler/plan.h"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>

#include <fmt/format.h>

#include "pool/scheduler/explain.h"
#include "pool/scheduler/timetable.h"

namespace xoe::pool {
namespace {

// The importance of a lease; more is more. It may displace plans of a lower class.
using Class = std::pair<int, bool>;

GpuSet available_gpus(const State& state, const GpuTable& table) {
  GpuSet set;
  for (std::size_t gpu = 0; gpu < table.size(); ++gpu)
    set[gpu] = state.is_present(table[gpu]) && state.unleased_processes(table[gpu]).empty();
  return set;
}

Claim claim_of(const Lease& lease, const GpuSet& gpus, Time from, Time to, bool open) {
  return {lease.id, &lease.user, &lease.team, gpus, from, to, open};
}

Limits limits_of(const State& state, const Lease& lease) {
  Limits limits;
  if (const auto user = state.users.find(lease.user); user != state.users.end()) limits.user = user->second.max_gpus;
  const auto team = state.teams.find(lease.team);
  // A team without a quota that may not borrow has no GPU: its asks are refused before they wait.
  if (team != state.teams.end() && !team->second.may_borrow) limits.team = team->second.quota;
  return limits;
}

class Planner {
 public:
  Planner(const State& state, Time now)
      : state_(state), now_(now), table_(state), available_(available_gpus(state, table_)), times_(table_, available_) {
    for (const auto& [id, lease] : state.leases)
      if (lease.is_open()) times_.add(claim_of(lease, table_.set_of(lease.gpus), now, lease.ends(), true));
    sort_queue();
  }

  Plan plan() {
    Plan plan;
    for (auto first = queue_.begin(); first != queue_.end();) {
      const auto end = std::find_if(first, queue_.end(), [&](const Entry& e) { return e.rank != first->rank; });
      plan_class({first, end});
      // Before less important leases take their places, which must not be in the way.
      for (Entry& entry : Entries(first, end))
        if (!call_holders(entry, plan, true) && state_.policy.give_way != GiveWayPolicy::kOff)
          call_holders(entry, plan, false);
      first = end;
    }
    int position = 0;
    for (const Entry& entry : queue_) plan.waiting.push_back(result_of(entry, ++position));
    return plan;
  }

 private:
  struct Entry {
    const Lease* lease;
    Class rank;
    Limits limits;
    std::optional<Slot> slot = {};
  };
  using Entries = std::span<Entry>;

  void claim(const Entry& entry) {
    times_.put(claim_of(*entry.lease, entry.slot->gpus, entry.slot->from, entry.slot->from + entry.lease->ask.duration,
                        false));
  }

  // By priority and arrival; then those that borrow behind those that do not.
  void sort_queue() {
    std::map<std::string_view, int> in_use;  // by team: held, or asked for earlier
    for (const auto& [id, lease] : state_.leases) {
      if (lease.is_open()) in_use[lease.team] += static_cast<int>(lease.gpus.size());
      if (lease.is_waiting()) queue_.push_back({&lease, {lease.ask.priority, true}, limits_of(state_, lease)});
    }
    const auto order = [](const Entry& e) { return std::tuple(-e.rank.first, !e.rank.second, e.lease->id); };
    std::ranges::sort(queue_, {}, order);
    for (Entry& entry : queue_) {
      const auto team = state_.teams.find(entry.lease->team);
      int& count = in_use[entry.lease->team];
      entry.rank.second = team == state_.teams.end() || count + entry.lease->ask.gpus <= team->second.quota;
      count += entry.lease->ask.gpus;
    }
    std::ranges::sort(queue_, {}, order);
  }

  Time earliest(const Lease& lease) const { return lease.ask.at ? std::max(*lease.ask.at, now_) : now_; }

  // Keeps the plans that still hold, then moves each forward as far as the others leave room, until none moves.
  void plan_class(Entries entries) {
    for (Entry& entry : entries) {
      const Lease& lease = *entry.lease;
      if (!lease.starts || lease.gpus.empty() || *lease.starts < earliest(lease)) continue;
      const Slot kept{*lease.starts, table_.set_of(lease.gpus)};
      if (kept.gpus.count() != lease.gpus.size() || !times_.fits(lease, entry.limits, kept)) continue;
      entry.slot = kept;
      claim(entry);
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (Entry& entry : entries) moved |= move_forward(entry);
    }
  }

  bool move_forward(Entry& entry) {
    const Lease& lease = *entry.lease;
    if (entry.slot && entry.slot->from == earliest(lease)) return false;
    std::optional<Time> before;
    if (entry.slot) before = entry.slot->from;
    const auto found = times_.find(lease, entry.limits, earliest(lease), before);
    if (!found) return false;
    entry.slot = found;
    claim(entry);
    return true;
  }

  // When the holder of an open lease could be made to end it for `entry`; nullopt: not at all.
  std::optional<Time> could_end(const Lease& holder, const Entry& entry) const {
    const Class theirs{holder.ask.priority, !holder.borrowed};
    if (theirs >= entry.rank || holder.give_way) return std::nullopt;
    const Policy& policy = state_.policy;
    const Time earliest = now_ + policy.give_way_grace;
    return std::min(holder.ask.yields ? earliest : std::max(earliest, holder.begins + policy.min_runtime),
                    holder.expires);
  }

  // Looks whether the lease could start earlier if less important holders gave way, and calls on as few as possible.
  // yielding: only of those that said that they can. False: none needs to, or can.
  bool call_holders(Entry& entry, Plan& plan, bool yielding) {
    const Lease& lease = *entry.lease;
    if (lease.ask.at || was_called_for(lease.id)) return false;
    Timetable shortened(table_, available_);
    GpuSet avoid;  // GPUs whose holders would have to give way
    for (Claim claim : times_.claims()) {
      if (claim.lease == lease.id) continue;
      if (const Lease& holder = state_.leases.at(claim.lease); claim.open && (!yielding || holder.ask.yields))
        if (const auto end = could_end(holder, entry); end && *end < claim.to) {
          claim.to = *end;
          avoid |= claim.gpus;
        }
      shortened.add(claim);
    }
    if (avoid.none()) return false;
    std::optional<Time> before;
    if (entry.slot) before = entry.slot->from;
    const auto better = shortened.find(lease, entry.limits, now_, before);
    if (!better) return false;
    const GpuSet free = shortened.free_for(lease, better->from) & suitable_gpus(table_, lease.ask);
    const GpuSet untouched = times_.free_for(lease, better->from);
    const auto gpus = choose_gpus(table_, lease.ask, free, avoid & ~untouched);
    return gpus && give_way(entry, {better->from, *gpus}, plan);
  }

  bool was_called_for(std::int64_t id) const {
    return std::ranges::any_of(state_.leases, [&](const auto& item) {
      return item.second.is_open() && item.second.give_way && item.second.give_way->for_lease == id;
    });
  }

  bool give_way(Entry& entry, const Slot& slot, Plan& plan) {
    const Lease& lease = *entry.lease;
    bool sure = true;  // that all will end by then
    std::vector<Claim> called;
    for (const Claim& claim : times_.claims())
      if (claim.open && claim.overlaps(slot.from, slot.from + lease.ask.duration) && (claim.gpus & slot.gpus).any())
        called.push_back(claim);
    // Else the limits of its user or team leave no room.
    const auto can = [&](const Claim& claim) { return could_end(state_.leases.at(claim.lease), entry).has_value(); };
    if (called.empty() || !std::ranges::all_of(called, can)) return false;
    for (Claim& claim : called) {
      const Lease& holder = state_.leases.at(claim.lease);
      const auto end = could_end(holder, entry);
      const bool ends = state_.policy.give_way == GiveWayPolicy::kReclaim || holder.ask.yields;
      plan.calls.push_back({claim.lease, {now_, ends ? end : std::nullopt, lease.id}});
      sure = sure && ends;
      if (!ends) continue;
      claim.to = *end;
      times_.put(claim);
    }
    if (!sure) return true;
    entry.slot = slot;
    claim(entry);
    return true;
  }

  PlannedLease result_of(const Entry& entry, int position) const {
    PlannedLease result{.lease = entry.lease->id, .position = position, .borrowed = !entry.rank.second};
    if (entry.slot) {
      result.starts = entry.slot->from;
      result.gpus = table_.uuids_of(entry.slot->gpus);
    }
    if (!result.starts || *result.starts > now_)
      result.why = explain_wait({state_, table_, times_, available_, now_}, *entry.lease, entry.limits, entry.slot);
    return result;
  }

  const State& state_;
  Time now_;
  GpuTable table_;
  GpuSet available_;
  Timetable times_;
  std::vector<Entry> queue_;
};

}  // namespace

Plan plan_leases(const State& state, Time now) { return Planner(state, now).plan(); }

std::vector<std::int64_t> calls_that_are_over(const State& state) {
  std::vector<std::int64_t> over;
  for (const auto& [id, lease] : state.leases) {
    if (!lease.is_open() || !lease.give_way) continue;
    const auto asker = state.leases.find(lease.give_way->for_lease);
    if (asker != state.leases.end() && asker->second.is_waiting()) continue;
    if (!lease.give_way->by || !promise_before(state, lease, lease.expires)) over.push_back(id);
  }
  return over;
}

std::optional<Promise> promise_before(const State& state, const Lease& lease, Time until) {
  const GpuTable table(state);
  Timetable times(table, GpuSet().set());
  std::vector<const Lease*> promised;
  for (const auto& [id, other] : state.leases) {
    const GpuSet gpus = table.set_of(other.gpus);
    if (other.is_open())
      times.add(claim_of(other, gpus, other.begins, other.id == lease.id ? until : other.ends(), true));
    if (!other.is_waiting() || !other.starts) continue;
    times.add(claim_of(other, gpus, *other.starts, *other.starts + other.ask.duration, false));
    promised.push_back(&other);
  }
  std::optional<Promise> first;
  for (const Lease* other : promised) {
    const bool kept = times.fits(*other, limits_of(state, *other), {*other->starts, table.set_of(other->gpus)});
    if (!kept && (!first || *other->starts < first->starts)) first = Promise{other->id, other->user, *other->starts};
  }
  return first;
}

}  // namespace xoe::pool

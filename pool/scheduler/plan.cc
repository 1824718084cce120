#include "pool/scheduler/plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "pool/scheduler/explain.h"
#include "pool/scheduler/timetable.h"

namespace xoe::pool {
namespace {

// The importance of a lease; more is more. It may displace plans of a lower class.
using Class = std::pair<int, bool>;

// A GPU that was given back counts as free, whatever the last report showed on it: that may have been its holder's
// program. No lease gets the GPU before the next report.
GpuSet available_gpus(const State& state, const GpuTable& table) {
  GpuSet set;
  for (std::size_t gpu = 0; gpu < table.size(); ++gpu)
    set[gpu] = state.is_present(table[gpu]) &&
               (!state.is_used_without_lease(table[gpu]) || state.activity.at(table[gpu].uuid).is_stale());
  return set;
}

// Those that were given back after the last report of their hosts.
GpuSet stale_gpus(const State& state, const GpuTable& table) {
  GpuSet set;
  for (const auto& [uuid, seen] : state.activity)
    if (const std::size_t gpu = seen.is_stale() ? table.index_of(uuid) : kMaxGpus; gpu < kMaxGpus) set.set(gpu);
  return set;
}

Claim claim_of(const Lease& lease, const GpuSet& gpus, Time from, Time to, bool open) {
  return {lease.id, &lease.user, &lease.team, gpus, from, to, open};
}

Limits limits_of(const State& state, const Lease& lease) {
  Limits limits;
  if (const auto user = state.users.find(lease.user); user != state.users.end()) limits.user = user->second.max_gpus;
  const auto team = state.teams.find(lease.team);
  // A team without a quota that may not borrow has no GPU: its requests are refused before they wait.
  if (team != state.teams.end() && !team->second.may_borrow) limits.team = team->second.quota;
  return limits;
}

class Planner {
 public:
  Planner(const State& state, Time now)
      : state_(state),
        now_(now),
        table_(state),
        available_(available_gpus(state, table_)),
        stale_(stale_gpus(state, table_)),
        times_(table_, available_, stale_, now) {
    for (const auto& [id, lease] : state.leases) {
      if (!lease.is_open()) continue;
      times_.put(claim_of(lease, table_.set_of(lease.gpus), now, lease.ends(), true));
      in_use_[lease.team] += static_cast<int>(lease.gpus.size());
      if (lease.give_way) called_for_.insert(lease.give_way->for_lease);
    }
    fill_queue();
  }

  Plan plan() {
    Plan plan;
    for (auto first = queue_.begin(); first != queue_.end();) {
      const auto end =
          std::find_if(first, queue_.end(), [&](const Entry& e) { return e.rank.first != first->rank.first; });
      const Entries entries(first, end);
      plan_priority(entries);
      std::ranges::sort(entries, {}, [](const Entry& e) { return std::pair(!e.rank.second, e.lease().id); });
      // Before less important leases take their places, which must not be in the way.
      for (auto& kept : shortened_) kept.reset();
      for (Entry& entry : entries)
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
    Demand demand;    // with the limits that always hold
    Demand in_quota;  // with its team's quota as a limit
    bool has_quota;   // which is one of its own, and it could be within it
    Class rank;       // of its slot: whether that is within the quota
    std::optional<Slot> slot = {};
    std::optional<std::size_t> freed_seen = {};  // at so many of freed_, it could not move

    const Lease& lease() const { return *demand.lease; }
    Time ends() const { return slot->from + lease().request.duration; }
  };
  using Entries = std::span<Entry>;

  void claim(const Entry& entry) {
    times_.put(claim_of(entry.lease(), entry.slot->gpus, entry.slot->from, entry.ends(), false));
  }

  // Many ask for the same.
  const GpuSet& suitable_for(const LeaseRequest& request) {
    const auto [known, is_new] = suitable_.try_emplace(GpuConditions(request));
    if (is_new) known->second = suitable_gpus(table_, known->first);
    return known->second;
  }

  // By priority and arrival.
  void fill_queue() {
    for (const auto& [id, lease] : state_.leases) {
      if (!lease.is_waiting()) continue;
      const Demand demand{&lease, limits_of(state_, lease), suitable_for(lease.request)};
      Entry& entry = queue_.emplace_back(Entry{demand, demand, true, {lease.request.priority, false}});
      const auto team = state_.teams.find(lease.team);
      if (team == state_.teams.end()) continue;
      entry.in_quota.limits.team = team->second.quota;
      entry.has_quota = lease.request.gpus <= team->second.quota;
    }
    std::ranges::stable_sort(queue_, std::greater(), [](const Entry& e) { return e.rank.first; });
  }

  Time earliest(const Lease& lease) const { return lease.request.at ? std::max(*lease.request.at, now_) : now_; }

  // First each lease gets its place within its team's quota: the plans that still hold are kept, and each moves forward
  // as far as the others leave room, until none moves. Then what is left is lent.
  void plan_priority(Entries entries) {
    freed_.clear();
    for (Entry& entry : entries) {
      if (entry.lease().starts && *entry.lease().starts <= now_)
        start_late(entry);
      else if (!entry.lease().borrowed)
        keep(entry);
    }
    for (Entry& entry : entries) avoid_stale(entry);
    move_all_forward(entries);
    for (Entry& entry : entries)
      if (!entry.slot && entry.lease().borrowed && !entry.has_quota) keep(entry);
    while (lend(entries)) move_all_forward(entries);
  }

  // Its planned start is over, and it has not started: the turn comes a moment later, or the report that it waits for.
  // So it starts as of then, and those behind it keep their places; unless that is long ago, or a short lease would
  // lose much of its time. No report comes later than the policy allows: then its host is offline.
  bool is_due(const Lease& lease) const {
    constexpr Span kMost = std::chrono::seconds(30);
    if (!lease.starts || *lease.starts > now_) return false;
    return now_ - *lease.starts <= std::min({kMost, state_.policy.host_timeout, lease.request.duration / 4});
  }

  // Whose planned start is over gets its place before those that follow it keep theirs: the promised one, or one now.
  void start_late(Entry& entry) {
    if (entry.lease().gpus.empty()) return;
    if (is_due(entry.lease())) keep(entry);
    if (!entry.slot) start_now(entry, entry.demand.suitable);
  }

  // One that waits for a report starts without it where others leave it GPUs.
  void avoid_stale(Entry& entry) {
    if (entry.slot && entry.slot->from <= now_ && (entry.slot->gpus & stale_).any())
      start_now(entry, entry.demand.suitable & ~stale_);
  }

  void start_now(Entry& entry, const GpuSet& suitable) {
    Demand demand = entry.demand;
    demand.suitable = suitable;
    const auto found = times_.find(demand, now_, now_ + Span(1));
    if (!found) return;
    Slot as_promised = *found;
    as_promised.from = *entry.lease().starts;
    if (!entry.slot) in_use_[entry.lease().team] += entry.lease().request.gpus;
    entry.slot = *found;
    if (is_due(entry.lease()) && times_.fits(entry.demand, as_promised)) entry.slot = as_promised;
    entry.rank.second = !entry.lease().borrowed;
    claim(entry);
  }

  void keep(Entry& entry) {
    const Lease& lease = entry.lease();
    if (!lease.starts || lease.gpus.empty() || (!is_due(lease) && *lease.starts < earliest(lease))) return;
    const Slot kept{*lease.starts, table_.set_of(lease.gpus)};
    if (kept.gpus.count() != lease.gpus.size() || !times_.fits(entry.demand, kept)) return;
    entry.slot = kept;
    entry.rank.second = !lease.borrowed;
    if (kept.from <= now_) in_use_[lease.team] += lease.request.gpus;
    claim(entry);
  }

  void move_all_forward(Entries entries) {
    for (bool moved = true; moved;) {
      moved = false;
      for (Entry& entry : entries)
        if (entry.has_quota) moved |= move_forward(entry, entry.in_quota);
    }
  }

  // A lease with a place within its quota borrows only to start at once, so that its planned start never depends on
  // what others leave. Whether one does; the shares of the teams change then.
  bool lend(Entries entries) {
    bool any = false;
    std::vector<Entry*> order;
    for (Entry& entry : entries) order.push_back(&entry);
    std::ranges::stable_sort(order, {}, [this](const Entry* entry) { return share_in_use(entry->lease().team); });
    for (Entry* const entry : order) {
      const Lease& lease = entry->lease();
      const auto freed_seen = std::exchange(entry->freed_seen, std::nullopt);
      const Time latest = entry->has_quota && !lease.request.at ? now_ + Span(1) : Time::max();
      const bool moved = move_forward(*entry, entry->demand, latest);
      if (!moved) entry->freed_seen = freed_seen;
      any |= moved;
      if (!moved || entry->slot->from > now_) continue;
      in_use_[lease.team] += lease.request.gpus;
      return true;
    }
    return any;
  }

  // Of its team's quota: who has least of it borrows first.
  double share_in_use(const std::string& name) {
    const auto team = state_.teams.find(name);
    if (team == state_.teams.end()) return 0;
    return static_cast<double>(in_use_[name]) / std::max(team->second.quota, 1);
  }

  // Room that has become free since the lease was freed_seen at: only a start that uses some of it can be new.
  struct Room {
    Time from = {};
    Time to = {};
  };
  std::optional<Room> new_room_for(const Entry& entry) const {
    if (!entry.freed_seen) return Room{Time::min(), Time::max()};
    std::optional<Room> all;
    for (const Room& room : std::span(freed_).subspan(*entry.freed_seen)) {
      if (entry.slot && room.from >= entry.ends()) continue;
      all = all ? Room{std::min(all->from, room.from), std::max(all->to, room.to)} : room;
    }
    return all;
  }

  // Finds an earlier start, before `latest`.
  bool move_forward(Entry& entry, const Demand& demand, Time latest = Time::max()) {
    const Lease& lease = entry.lease();
    const auto room = new_room_for(entry);
    entry.freed_seen = freed_.size();
    const Time first = earliest(lease);
    if (!room || (entry.slot && entry.slot->from <= first)) return false;
    const bool anywhere = room->from == Time::min() || lease.request.at;
    const Time from = anywhere ? first : std::max(first, room->from - lease.request.duration);
    const Time before = std::min({latest, room->to, entry.slot ? entry.slot->from : Time::max()});
    const auto found = times_.find(demand, from, before);
    if (!found) return false;
    entry.rank.second = entry.has_quota && times_.within_limits(lease, entry.in_quota.limits, found->from);
    if (entry.slot) {
      freed_.push_back({entry.slot->from, entry.ends()});
      entry.freed_seen = freed_.size();
    }
    entry.slot = found;
    claim(entry);
    return true;
  }

  // When the holder of an open lease could be made to end it for `entry`; nullopt: not at all.
  std::optional<Time> could_end(const Lease& holder, const Entry& entry) const {
    const Class theirs{holder.request.priority, !holder.borrowed};
    if (theirs >= entry.rank || holder.give_way) return std::nullopt;
    const Policy& policy = state_.policy;
    const Time earliest = now_ + policy.give_way_grace;
    return std::min(holder.request.yields ? earliest : std::max(earliest, holder.begins + policy.min_runtime),
                    holder.expires);
  }

  // The plan as it would be if all holders gave way that a lease of this class may ask to, or those of them that yield.
  struct Shortened {
    Class rank;
    Timetable times;
    GpuSet gpus = {};  // whose holders would have to
  };

  const Shortened& shortened_for(const Entry& entry, bool yielding) {
    std::optional<Shortened>& kept = shortened_[yielding ? 1 : 0];
    if (kept && kept->rank == entry.rank) return *kept;
    kept.emplace(Shortened{entry.rank, times_});
    for (Claim claim : times_.claims()) {
      const Lease& holder = state_.leases.at(claim.lease);
      if (!claim.open || (yielding && !holder.request.yields)) continue;
      const auto end = could_end(holder, entry);
      if (!end || *end >= claim.to) continue;
      claim.to = *end;
      kept->gpus |= claim.gpus;
      kept->times.put(claim);
    }
    return *kept;
  }

  // Looks whether the lease could start earlier if less important holders gave way, and calls on as few as possible.
  // yielding: only of those that said that they can. False: none needs to, or can.
  bool call_holders(Entry& entry, Plan& plan, bool yielding) {
    const Lease& lease = entry.lease();
    if (lease.request.at || called_for_.contains(lease.id)) return false;
    const Shortened& shortened = shortened_for(entry, yielding);
    if (shortened.gpus.none()) return false;
    std::optional<Time> before;
    if (entry.slot) before = entry.slot->from;
    const Demand& demand = entry.rank.second ? entry.in_quota : entry.demand;
    const auto better = shortened.times.find(demand, now_, before);
    if (!better) return false;
    const GpuSet free = shortened.times.free_for(lease, better->from) & entry.demand.suitable;
    const GpuSet untouched = times_.free_for(lease, better->from);
    const auto gpus = choose_gpus(table_, lease.request, free, shortened.gpus & ~untouched);
    return gpus && give_way(entry, {better->from, *gpus}, plan);
  }

  bool give_way(Entry& entry, const Slot& slot, Plan& plan) {
    const Lease& lease = entry.lease();
    bool sure = true;  // that all will end by then
    std::vector<Claim> called;
    for (const Claim& claim : times_.claims())
      if (claim.open && claim.overlaps(slot.from, slot.from + lease.request.duration) && (claim.gpus & slot.gpus).any())
        called.push_back(claim);
    // Else the limits of its user or team leave no room.
    const auto can = [&](const Claim& claim) { return could_end(state_.leases.at(claim.lease), entry).has_value(); };
    if (called.empty() || !std::ranges::all_of(called, can)) return false;
    for (Claim& claim : called) {
      const Lease& holder = state_.leases.at(claim.lease);
      const auto end = could_end(holder, entry);
      const bool ends = state_.policy.give_way == GiveWayPolicy::kReclaim || holder.request.yields;
      plan.calls.push_back({claim.lease, {now_, ends ? end : std::nullopt, lease.id}});
      sure = sure && ends;
      if (!ends) continue;
      claim.to = *end;
      times_.put(claim);
      for (auto& kept : shortened_) kept.reset();
    }
    if (!sure) return true;
    entry.slot = slot;
    claim(entry);
    return true;
  }

  static std::optional<int> quota_of(const Entry& entry) {
    const int quota = entry.in_quota.limits.team;
    return entry.rank.second && quota != 0 ? std::optional(quota) : std::nullopt;
  }

  PlannedLease result_of(const Entry& entry, int position) const {
    PlannedLease result{.lease = entry.lease().id, .position = position, .borrowed = !entry.rank.second};
    if (entry.slot) {
      result.starts = entry.slot->from;
      result.gpus = table_.uuids_of(entry.slot->gpus);
    }
    if (!result.starts || *result.starts > now_ || (entry.slot->gpus & stale_).any())
      result.why =
          explain_wait({state_, table_, times_, available_, stale_, now_}, entry.demand, quota_of(entry), entry.slot);
    return result;
  }

  const State& state_;
  Time now_;
  GpuTable table_;
  GpuSet available_;
  GpuSet stale_;
  Timetable times_;
  std::vector<Entry> queue_;
  std::map<GpuConditions, GpuSet> suitable_;
  std::map<std::string, int> in_use_;  // GPUs of open leases, by team
  std::vector<Room> freed_;            // what plans left that moved, of the priority that is being planned
  std::set<std::int64_t> called_for_;  // leases for which a holder gives way
  std::array<std::optional<Shortened>, 2> shortened_;  // by all holders, by those that yield
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
  const GpuSet held = table.set_of(lease.gpus);
  Timetable times(table, GpuSet().set());
  std::vector<const Lease*> promised;
  for (const auto& [id, other] : state.leases) {
    const GpuSet gpus = table.set_of(other.gpus);
    if (other.is_open() && other.id != lease.id) times.put(claim_of(other, gpus, other.begins, other.ends(), true));
    if (!other.is_waiting() || !other.starts) continue;
    times.put(claim_of(other, gpus, *other.starts, *other.starts + other.request.duration, false));
    promised.push_back(&other);
  }
  times.put(claim_of(lease, held, lease.begins, until, true));
  std::optional<Promise> first;
  for (const Lease* other : promised) {
    const bool kept = (*other->starts >= until || (table.set_of(other->gpus) & held).none()) &&
                      times.within_limits(*other, limits_of(state, *other), *other->starts);
    if (!kept && (!first || *other->starts < first->starts)) first = Promise{other->id, other->user, *other->starts};
  }
  return first;
}

std::optional<Promise> promise_before(const State& state, const Lease& lease, Time until, Time now) {
  const auto is_late = [](const Lease& other) {
    const auto& promised = other.logged.promised;
    return other.is_waiting() && promised && (!other.starts || *other.starts > *promised);
  };
  const auto is_used = [&](const auto& item) { return state.is_used_without_lease(item.second); };
  if (std::ranges::none_of(state.leases, [&](const auto& item) { return is_late(item.second); }) ||
      std::ranges::none_of(state.gpus, is_used))
    return promise_before(state, lease, until);
  State without_use = state;
  for (const auto& item : state.gpus)
    if (is_used(item)) without_use.activity[item.first] = {};
  for (PlannedLease& planned : plan_leases(without_use, now).waiting)
    if (Lease& other = without_use.leases.at(planned.lease); is_late(other)) {
      other.starts = planned.starts;
      other.gpus = std::move(planned.gpus);
    }
  return promise_before(without_use, lease, until);
}

}  // namespace xoe::pool

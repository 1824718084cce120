#include "pool/scheduler/timetable.h"

#include <algorithm>

namespace xoe::pool {

void Timetable::put(const Claim& claim) {
  const auto [known, is_new] = index_.try_emplace(claim.lease, claims_.size());
  if (is_new) {
    claims_.push_back(claim);
  } else {
    apply(claims_[known->second], false);
    claims_[known->second] = claim;
  }
  apply(claim, true);
}

const Claim* Timetable::claim_of(std::int64_t lease) const {
  const auto found = index_.find(lease);
  return found == index_.end() ? nullptr : &claims_[found->second];
}

void Timetable::apply(const Claim& claim, bool add) {
  used_.change(claim.from, claim.to, [&](Use& use) {
    use.gpus = add ? use.gpus | claim.gpus : use.gpus & ~claim.gpus;
    use.free = use.free_on_host = -1;
  });
  const int change = static_cast<int>(claim.gpus.count()) * (add ? 1 : -1);
  for (auto& [counts, name] : {std::pair(&by_user_, claim.user), {&by_team_, claim.team}})
    (*counts)[*name].change(claim.from, claim.to, [&](int& gpus) { gpus += change; });
}

GpuSet Timetable::free_for(const Lease& lease, Time from) const {
  const Claim* const own = claim_of(lease.id);
  const Time end = from + lease.request.duration;
  GpuSet free = available_;
  for (Step step = used_.at(from); step != used_.end() && step->first < end; ++step) {
    GpuSet used = step->second.gpus;
    if (own != nullptr && step->first >= own->from && step->first < own->to) used &= ~own->gpus;
    free &= ~used;
  }
  return free;
}

// Whether some user or team would have more GPUs than it may if the lease started at `from`: then the end of the last
// step in which it would, before which it cannot start.
std::optional<Time> Timetable::beyond(int limit, const Counts& counts, const std::string& name, const Lease& lease,
                                      Time from) const {
  const auto found = limit == 0 ? counts.end() : counts.find(name);
  if (found == counts.end()) return std::nullopt;
  const Claim* const own = claim_of(lease.id);
  const int own_gpus = own == nullptr ? 0 : lease.request.gpus;
  const auto first = found->second.at(from);
  for (auto step = found->second.at(from + lease.request.duration - Span(1));; --step) {
    const bool is_own = own != nullptr && step->first >= own->from && step->first < own->to;
    if (step->second - (is_own ? own_gpus : 0) + lease.request.gpus > limit) {
      const auto next = std::next(step);
      return next == found->second.end() ? Time::max() : next->first;
    }
    if (step == first) return std::nullopt;
  }
}

std::optional<Time> Timetable::beyond(const Lease& lease, const Limits& limits, Time from) const {
  const auto of_user = beyond(limits.user, by_user_, lease.user, lease, from);
  const auto of_team = beyond(limits.team, by_team_, lease.team, lease, from);
  return of_user && of_team ? std::max(of_user, of_team) : of_user ? of_user : of_team;
}

bool Timetable::within_limits(const Lease& lease, const Limits& limits, Time from) const {
  return !beyond(lease, limits, from);
}

bool Timetable::fits(const Demand& demand, const Slot& slot) const {
  return (slot.gpus & ~free_for(*demand.lease, slot.from)).none() &&
         within_limits(*demand.lease, demand.limits, slot.from);
}

int Timetable::room_in(const Use& use, bool any_host) const {
  if (use.free < 0) {
    const GpuSet free = available_ & ~use.gpus;
    use.free = static_cast<int>(free.count());
    for (const auto& [first, end] : table_.hosts()) {
      int here = 0;
      for (std::size_t gpu = first; gpu < end; ++gpu) here += free[gpu] ? 1 : 0;
      use.free_on_host = std::max(use.free_on_host, here);
    }
  }
  return any_host ? use.free : use.free_on_host;
}

// The GPUs that are free for the whole of a lease that starts in the step `first`; none where they are too few, and
// then the next step in which it is worth to look.
std::pair<GpuSet, Timetable::Step> Timetable::window(const Demand& demand, const Claim* own, Step first,
                                                     Time start) const {
  const LeaseRequest& request = demand.lease->request;
  const auto wanted = static_cast<std::size_t>(request.gpus);
  const Time end = start + request.duration;
  const GpuSet candidates = demand.suitable & available_;
  GpuSet free = candidates;
  for (Step step = first; step != used_.end() && step->first < end; ++step) {
    const bool is_own = own != nullptr && step->first >= own->from && step->first < own->to;
    if (!is_own && room_in(step->second, request.any_host) < request.gpus) return {GpuSet(), std::next(step)};
    const GpuSet taken = is_own ? step->second.gpus & ~own->gpus : step->second.gpus;
    if ((free & taken).none()) continue;
    free &= ~taken;
    if (free.count() >= wanted) continue;
    const bool alone = !is_own && (candidates & ~step->second.gpus).count() < wanted;
    return {GpuSet(), std::next(alone ? step : first)};
  }
  return {free.count() >= wanted ? free : GpuSet(), std::next(first)};
}

std::optional<Slot> Timetable::find(const Demand& demand, Time from, std::optional<Time> before) const {
  const Lease& lease = *demand.lease;
  const Claim* const own = claim_of(lease.id);
  // Room appears only where a claim ends, so at the begin of a step.
  Time start = from;
  for (Step step = used_.at(from); !before || start < *before;) {
    if (const auto later = beyond(lease, demand.limits, start)) {
      if (lease.request.at || *later == Time::max()) break;
      start = *later;
      step = used_.at(start);
      continue;
    }
    const auto [free, next] = window(demand, own, step, start);
    if (free.any())
      if (const auto gpus = choose_gpus(table_, lease.request, free, start == now_ ? last_ : GpuSet()))
        return Slot{start, *gpus};
    if (lease.request.at || next == used_.end()) break;
    step = next;
    start = step->first;
  }
  return std::nullopt;
}

}  // namespace xoe::pool

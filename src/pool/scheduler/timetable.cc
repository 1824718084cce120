#include "pool/scheduler/timetable.h"

#include <algorithm>

namespace xoe::pool {

void Timetable::put(const Claim& claim) {
  const auto found = std::ranges::find(claims_, claim.lease, &Claim::lease);
  if (found == claims_.end())
    claims_.push_back(claim);
  else
    *found = claim;
}

GpuSet Timetable::free_for(const Lease& lease, Time from) const {
  GpuSet free = available_;
  for (const Claim& claim : claims_)
    if (claim.overlaps(from, from + lease.ask.duration) && claim.lease != lease.id) free &= ~claim.gpus;
  return free;
}

// The most GPUs that the lease's user or team has at once between two moments. It can only rise where a claim begins.
int Timetable::peak(std::string Lease::*whose, const Lease& lease, Time from, Time to) const {
  const auto same = [&](const Claim& claim) {
    return claim.lease != lease.id && *(whose == &Lease::user ? claim.user : claim.team) == lease.*whose;
  };
  const auto at = [&](Time moment) {
    std::size_t count = 0;
    for (const Claim& claim : claims_)
      if (claim.overlaps(moment, moment + Span(1)) && same(claim)) count += claim.gpus.count();
    return static_cast<int>(count);
  };
  int most = at(from);
  for (const Claim& claim : claims_)
    if (claim.from > from && claim.from < to && same(claim)) most = std::max(most, at(claim.from));
  return most;
}

bool Timetable::within_limits(const Lease& lease, const Limits& limits, Time from) const {
  const Time to = from + lease.ask.duration;
  const auto within = [&](int limit, std::string Lease::*whose) {
    return limit == 0 || peak(whose, lease, from, to) + lease.ask.gpus <= limit;
  };
  return within(limits.user, &Lease::user) && within(limits.team, &Lease::team);
}

bool Timetable::fits(const Lease& lease, const Limits& limits, const Slot& slot) const {
  return (slot.gpus & ~free_for(lease, slot.from)).none() && within_limits(lease, limits, slot.from);
}

std::optional<Slot> Timetable::find(const Lease& lease, const Limits& limits, Time from,
                                    std::optional<Time> before) const {
  const GpuSet suitable = suitable_gpus(table_, lease.ask);
  // Room appears only where a claim ends.
  std::vector<Time> starts = {from};
  if (!lease.ask.at)
    for (const Claim& claim : claims_)
      if (claim.to > from && (!before || claim.to < *before) && claim.lease != lease.id) starts.push_back(claim.to);
  std::ranges::sort(starts);
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  for (const Time start : starts) {
    if (before && start >= *before) break;
    const GpuSet free = suitable & free_for(lease, start);
    if (free.count() < static_cast<std::size_t>(lease.ask.gpus) || !within_limits(lease, limits, start)) continue;
    if (const auto gpus = choose_gpus(table_, lease.ask, free)) return Slot{start, *gpus};
  }
  return std::nullopt;
}

}  // namespace xoe::pool

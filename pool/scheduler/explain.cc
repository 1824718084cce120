#include "pool/scheduler/explain.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/text.h"

namespace xoe::pool {
namespace {

// "2 GPUs of type T4"
std::string gpus_like(const LeaseRequest& request, std::string text) {
  if (!request.type.empty()) text += fmt::format(" of type {}", request.type);
  if (request.memory > 0) text += fmt::format(" with {}", human_bytes(request.memory));
  if (!request.host.empty()) text += " on " + request.host;
  if (request.backend() == Backend::kVsphere) text += " for VMs";
  if (request.backend() == Backend::kSlurm) text += " of a Slurm cluster";
  return text;
}

// No start is known.
std::string explain_no_start(const PlanView& view, const Demand& demand) {
  const LeaseRequest& request = demand.lease->request;
  const GpuSet& suitable = demand.suitable;
  if (suitable.count() < static_cast<std::size_t>(request.gpus))
    return fmt::format("the pool has {}, and {} are asked for",
                       gpus_like(request, counted(static_cast<std::int64_t>(suitable.count()), "GPU")), request.gpus);
  if (!choose_gpus(view.table, request, suitable))
    return fmt::format("no host has {} such GPUs{}", request.gpus,
                       request.same_nvlink ? " with NVLinks between all of them" : "");
  for (std::size_t gpu = 0; gpu < view.table.size(); ++gpu) {
    if (!suitable[gpu] || view.available[gpu]) continue;
    const Gpu& missing = view.table[gpu];
    const auto& processes = view.state.unleased_processes(missing);
    if (!processes.empty())
      return fmt::format("{} on {} is in use without a lease by {} (process {})", missing.uuid, missing.host,
                         processes.front().user.empty() ? "an unknown user" : processes.front().user,
                         processes.front().pid);
    if (view.state.is_present(missing) && view.state.is_used_without_lease(missing))
      return fmt::format("{} on {} is in use without a lease, by processes that its driver does not list", missing.uuid,
                         missing.host);
    if (!view.state.is_present(missing)) return fmt::format("{} on {} is offline", missing.uuid, missing.host);
  }
  if (request.at)
    return fmt::format("no {} is free for the whole time from {}", gpus_like(request, "GPU"), time_text(*request.at));
  return "the limit of its user or team leaves no room";
}

// Its GPUs were given back after the last report.
std::string explain_stale(const PlanView& view, const Slot& slot) {
  std::size_t gpu = 0;
  while (gpu < view.table.size() && !(slot.gpus & view.stale)[gpu]) ++gpu;
  const Gpu& first = view.table[gpu];
  return fmt::format(
      "{} on {} was given back a moment ago: the next report of its agent, within {}, tells whether it is free",
      first.uuid, first.host, span_text(view.state.policy.host_timeout));
}

// The claim on one of `gpus` that ends last before or at the start.
const Claim* claim_in_the_way(const PlanView& view, const Lease& lease, const Slot& slot) {
  const Claim* last = nullptr;
  for (const Claim& claim : view.times.claims())
    if (claim.lease != lease.id && claim.to <= slot.from && claim.to > (last == nullptr ? view.now : last->to) &&
        (claim.gpus & slot.gpus).any())
      last = &claim;
  return last;
}

}  // namespace

std::string explain_wait(const PlanView& view, const Demand& demand, const std::optional<int>& quota,
                         const std::optional<Slot>& slot) {
  const Lease& lease = *demand.lease;
  const Limits& limits = demand.limits;
  if (!slot) return explain_no_start(view, demand);
  if (slot->from <= view.now) return explain_stale(view, *slot);
  if (lease.request.at) return fmt::format("it is reserved for {}", time_text(slot->from));
  const Claim* const claim = claim_in_the_way(view, lease, *slot);
  // A moment before, would there have been GPUs? Then it is a limit that holds it back.
  if (const Time before = slot->from - Span(1);
      before >= view.now && !view.times.within_limits(lease, limits, before)) {
    const bool of_user = limits.user != 0 && view.times.within_limits(lease, {0, limits.team}, before);
    return fmt::format("{} has its limit of {} until {}", of_user ? lease.user : "team " + lease.team,
                       counted(of_user ? limits.user : limits.team, "GPU"), time_text(slot->from));
  }
  if (claim != nullptr) {
    const Lease& other = view.state.leases.at(claim->lease);
    if (claim->open)
      return fmt::format("{} holds {} (lease {}) until {}", other.user,
                         claim->gpus.count() == 1 ? "the GPU" : counted(static_cast<int>(claim->gpus.count()), "GPU"),
                         other.id, time_text(claim->to));
    return fmt::format("lease {} of {} goes first, and ends at {}", other.id, other.user, time_text(claim->to));
  }
  if (quota && !view.times.within_limits(lease, {0, *quota}, slot->from - Span(1)))
    return fmt::format("team {} uses its quota of {} until {}; it starts earlier if other teams leave GPUs unused",
                       lease.team, counted(*quota, "GPU"), time_text(slot->from));
  return fmt::format("an earlier start would delay a lease that goes first; it starts at {}", time_text(slot->from));
}

}  // namespace xoe::pool

#include "pool/core/limits.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "pool/core/targets.h"

namespace xoe::pool {

Status check_duration(const Policy& policy, Span duration) {
  if (duration >= std::chrono::seconds(1) && duration <= policy.max_duration) return {};
  return failure(Code::kInvalidArgument, "a lease lasts from 1 s to {}, not {}", span_text(policy.max_duration),
                 span_text(duration));
}

Status check_ask(const State& state, const User& user, const Ask& ask, Time now) {
  if (ask.gpus < 1 || ask.gpus > static_cast<int>(kMaxGpus))
    return failure(Code::kInvalidArgument, "gpus: {} is not between 1 and {}", ask.gpus, kMaxGpus);
  XOE_TRY(check_duration(state.policy, ask.duration));
  if (ask.at && (*ask.at < now || *ask.at > now + std::chrono::days(366)))
    return failure(Code::kInvalidArgument, "at: {} is not within the next year", time_text(*ask.at));
  if (ask.type.size() > 64 || ask.purpose.size() > 200)
    return failure(Code::kInvalidArgument, "{} is longer than {} characters", ask.type.size() > 64 ? "type" : "purpose",
                   ask.type.size() > 64 ? 64 : 200);
  if (ask.priority > user.max_priority)
    return failure(Code::kResourceExhausted, "{} may ask with a priority of {} at most, not {}", user.name,
                   user.max_priority, ask.priority);
  if (user.max_gpus != 0 && ask.gpus > user.max_gpus)
    return failure(Code::kResourceExhausted, "{} may hold {} at once, not {}", user.name, counted(user.max_gpus, "GPU"),
                   ask.gpus);
  const auto team = state.teams.find(user.team);
  if (team != state.teams.end() && !team->second.may_borrow && ask.gpus > team->second.quota)
    return failure(Code::kResourceExhausted, "team {} has a quota of {} and may not borrow", user.team,
                   counted(team->second.quota, "GPU"));
  const auto waiting = std::ranges::count_if(
      state.leases, [&](const auto& item) { return item.second.is_waiting() && item.second.user == user.name; });
  if (waiting >= state.policy.max_waiting)
    return failure(Code::kResourceExhausted, "{} has {} leases waiting already; that is the most", user.name, waiting);
  return {};
}

Status check_adoption(const State& state, const User& user, const Ask& ask) {
  if (ask.exact.size() != static_cast<std::size_t>(ask.gpus))
    return failure(Code::kInvalidArgument, "adopt: name the GPUs by their UUIDs");
  for (const std::string& uuid : ask.exact) {
    const auto gpu = state.gpus.find(uuid);
    if (gpu == state.gpus.end()) return failure(Code::kInvalidArgument, "the pool has no GPU {}", uuid);
    XOE_TRY(check_adoption_by_vm(state, ask, gpu->second));
    if (const Lease* holder = state.holder_of(uuid))
      return failure(Code::kResourceExhausted, "{} holds {} (lease {})", holder->user, uuid, holder->id);
    const auto& processes = state.unleased_processes(gpu->second);
    if (processes.empty()) return failure(Code::kInvalidArgument, "no process uses {}: acquire it instead", uuid);
    for (const GpuProcess& process : processes)
      if (process.user != user.name && user.role != Role::kAdmin)
        return failure(Code::kInvalidArgument, "process {} on {} is not yours but of {}", process.pid, uuid,
                       process.user.empty() ? "an unknown user" : process.user);
  }
  return {};
}

}  // namespace xoe::pool

#include "pool/core/usage_meter.h"

#include <algorithm>

#include "core/base/error.h"

namespace xoe::pool {

void UsageMeter::observe(const State& state, const HostReport& report, Span since, Time now) {
  for (std::size_t i = 0; i < report.gpus.size(); ++i) {
    const Lease* const lease = state.holder_of(report.gpus[i].uuid);
    if (lease == nullptr || lease->request.backend() != Backend::kHost) continue;  // what it does is not seen
    const GpuActivity& seen = report.activity[i];
    const bool busy = seen.work() >= state.policy.idle.utilisation && !seen.processes.empty();
    Use& use = uses_[{lease->user, lease->team}];
    (busy ? use.busy : use.idle) += std::min(since, now - lease->begins);
  }
}

Status UsageMeter::store_in(Store& store, Time now) const {
  for (const auto& [who, use] : uses_)
    XOE_TRY(store.add_usage(
        {.hour = hour_of(now), .user = who.first, .team = who.second, .busy = use.busy, .idle = use.idle}));
  return {};
}

void UsageMeter::stored(Time now) {
  uses_.clear();
  stored_ = now;
}

}  // namespace xoe::pool

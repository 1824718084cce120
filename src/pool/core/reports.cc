// The pool's part that takes what agents report.
#include <algorithm>

#include "base/error.h"
#include "pool/core/drift.h"
#include "pool/core/limits.h"
#include "pool/core/pool.h"
#include "pool/core/targets.h"

namespace xoe::pool {

Status Pool::report(const HostReport& report, std::string_view agent) {
  XOE_TRY(check_report(state_, report, agent));
  XOE_TRY(save_facts(report, agent));
  Host& host = state_.hosts.at(report.host);
  const Span since = std::min(now_ - host.heard, state_.policy.host_timeout);
  if (!host.online) {
    XOE_TRY(log("pool", "host-online", 0, host.name, fmt::format("{} GPUs", report.gpus.size())));
    host.heard = now_;
    XOE_TRY(kept(store_.save(host)));
  }
  host.heard = now_;
  host.online = true;
  host.problem = report.problem;
  for (const auto& [uuid, gpu] : state_.gpus)
    if (gpu.host == host.name) state_.activity.erase(uuid);
  for (std::size_t i = 0; i < report.gpus.size(); ++i) {
    GpuActivity& seen = state_.activity[report.gpus[i].uuid] = report.activity[i];
    // It is about to be closed to the one who held it before.
    const Lease* const lease = seen.open_to ? state_.holder_of(report.gpus[i].uuid) : nullptr;
    if (seen.open_to)
      std::erase_if(*seen.open_to, [&](const std::string& user) { return lease == nullptr || lease->user != user; });
  }
  std::erase_if(state_.vms, [&](const auto& item) { return item.second.host == host.name; });
  for (const Vm& vm : report.vms) state_.vms[vm.name] = vm;
  for (const std::int64_t id : forbidden_waits(state_)) {
    Lease& lease = state_.leases.at(id);
    XOE_TRY(end(lease, now_, kPoolItself, fmt::format("VM {} is not for {} any more", lease.ask.vm, lease.user)));
  }
  for (const Gpu& gpu : report.gpus) XOE_TRY(note_unleased(gpu));
  idle_.observe(state_, report, since, now_);
  usage_.observe(state_, report, since, now_);
  return {};
}

Status Pool::save_facts(const HostReport& report, std::string_view agent) {
  const auto [host, is_new] = state_.hosts.try_emplace(report.host, Host{.name = report.host, .heard = now_});
  if (is_new || host->second.without != report.without) {
    XOE_TRY(log("pool", is_new ? "host" : "host-changed", 0, report.host,
                report.without.empty() ? "it has GPUs" : "no GPUs: " + report.without));
    host->second.without = report.without;
    XOE_TRY(kept(store_.save(host->second)));
  }
  if (!agent.empty() && host->second.agent != agent) {
    host->second.agent = agent;
    XOE_TRY(log(agent, "host-agent", 0, report.host, "reports of it are taken from this agent"));
    XOE_TRY(kept(store_.save(host->second)));
  }
  for (const Gpu& gpu : report.gpus) {
    const auto known = state_.gpus.find(gpu.uuid);
    if (known != state_.gpus.end() && known->second == gpu) continue;
    XOE_TRY(log("pool", known == state_.gpus.end() ? "gpu" : "gpu-changed", 0, gpu.uuid,
                fmt::format("{} on {}", gpu.name, gpu.host)));
    state_.gpus[gpu.uuid] = gpu;
    XOE_TRY(kept(store_.save(gpu)));
  }
  return {};
}

Status Pool::note_unleased(const Gpu& gpu) {
  const std::string users = processes_text(state_.unleased_processes(gpu));
  std::string& before = unleased_[gpu.uuid];
  if (before == users) return {};
  before = users;
  return users.empty() ? log("pool", "unleased-use-over", 0, gpu.uuid, {})
                       : log("pool", "unleased-use", 0, gpu.uuid, "in use without a lease by " + users);
}

}  // namespace xoe::pool

// The pool's part that takes what agents report.
#include <algorithm>

#include "base/error.h"
#include "pool/core/drift.h"
#include "pool/core/forget.h"
#include "pool/core/limits.h"
#include "pool/core/pool.h"
#include "pool/core/targets.h"

namespace xoe::pool {

Status Pool::report(const HostReport& report, std::string_view agent) {
  XOE_TRY(check_report(state_, report, agent));
  XOE_TRY(make_room(report));
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
  missing_.observe(state_, report, now_);
  for (const std::string& uuid : missing_.due(state_, host.name, now_))
    XOE_TRY(forget_gpu(uuid, "pool", fmt::format("{} has not had it for {}", host.name, span_text(kForgetAfter))));
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
  for (Gpu gpu : report.gpus) {
    const auto known = state_.gpus.find(gpu.uuid);
    if (known != state_.gpus.end()) {  // a driver that does not tell a fact now has not changed it
      if (gpu.memory == 0) gpu.memory = known->second.memory;
      if (gpu.name.empty()) gpu.name = known->second.name;
      if (gpu.pci.empty()) gpu.pci = known->second.pci;
      if (known->second == gpu) continue;
    }
    XOE_TRY(log("pool", known == state_.gpus.end() ? "gpu" : "gpu-changed", 0, gpu.uuid,
                fmt::format("{} on {}", gpu.name, gpu.host)));
    state_.gpus[gpu.uuid] = gpu;
    XOE_TRY(kept(store_.save(gpu)));
  }
  return {};
}

Status Pool::forget_gpu(const std::string& uuid, std::string_view actor, std::string_view why) {
  state_.gpus.erase(uuid);
  state_.activity.erase(uuid);
  unleased_.erase(uuid);
  missing_.forget(uuid);
  XOE_TRY(log(actor, "gpu-forgotten", 0, uuid, why));
  return kept(store_.remove_gpu(uuid));
}

// For GPUs that nobody knew, where the pool is full of some that are no more.
Status Pool::make_room(const HostReport& report) {
  const auto fresh =
      std::ranges::count_if(report.gpus, [&](const Gpu& gpu) { return !state_.gpus.contains(gpu.uuid); });
  if (state_.gpus.size() + static_cast<std::size_t>(fresh) <= kMaxGpus) return {};
  for (const std::string& uuid : gpus_to_forget_for(state_, report))
    XOE_TRY(forget_gpu(uuid, "pool", "its host does not have it any more, and others need its place"));
  return {};
}

Status Pool::forget_host(const User& actor, const std::string& name) {
  const auto host = state_.hosts.find(name);
  if (host == state_.hosts.end()) return failure(Code::kInvalidArgument, "there is no host {}", name);
  if (const std::string why = why_host_stays(state_, host->second); !why.empty())
    return failure(Code::kInvalidArgument, "host {} cannot be forgotten: {}", name, why);
  std::vector<std::string> uuids;
  for (const auto& [uuid, gpu] : state_.gpus)
    if (gpu.host == name) uuids.push_back(uuid);
  for (const std::string& uuid : uuids) XOE_TRY(forget_gpu(uuid, actor.name, "host " + name + " was forgotten"));
  state_.hosts.erase(host);
  std::erase_if(state_.vms, [&](const auto& item) { return item.second.host == name; });
  XOE_TRY(log(actor.name, "host-forgotten", 0, name, {}));
  return kept(store_.remove_host(name));
}

Status Pool::note_unleased(const Gpu& gpu) {
  const std::string users = state_.is_used_without_lease(gpu) ? use_text(state_.activity.at(gpu.uuid)) : std::string();
  std::string& before = unleased_[gpu.uuid];
  if (before == users) return {};
  before = users;
  return users.empty() ? log("pool", "unleased-use-over", 0, gpu.uuid, {})
                       : log("pool", "unleased-use", 0, gpu.uuid, "in use without a lease by " + users);
}

}  // namespace xoe::pool

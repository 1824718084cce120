// The pool's part that takes what agents report.
#include <algorithm>

#include "base/error.h"
#include "pool/core/pool.h"

namespace xoe::pool {
namespace {

std::string users_of(const std::vector<GpuProcess>& processes) {
  std::vector<std::string> parts;
  for (const GpuProcess& process : processes)
    parts.push_back(fmt::format("{} (process {})", process.user.empty() ? "an unknown user" : process.user, process.pid));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

Status Pool::report(const HostReport& report) {
  if (report.host.empty() || report.gpus.size() != report.activity.size())
    return failure(Code::kInvalidArgument, "a report without a host, or with activity that belongs to no GPU");
  const auto known_elsewhere = std::ranges::count_if(state_.gpus, [&](const auto& item) {
    return item.second.host != report.host;
  });
  if (report.gpus.size() + static_cast<std::size_t>(known_elsewhere) > kMaxGpus)
    return failure(Code::kResourceExhausted, "the pool has room for {} GPUs", kMaxGpus);
  XOE_TRY(save_facts(report));
  Host& host = state_.hosts.at(report.host);
  const Span since = std::min(now_ - host.heard, state_.policy.host_timeout);
  if (!host.online) {
    XOE_TRY(log("pool", "host-online", 0, host.name, fmt::format("{} GPUs", report.gpus.size())));
    host.heard = now_;
    XOE_TRY(kept(store_.save(host)));
  }
  host.heard = now_;
  host.online = true;
  for (const auto& [uuid, gpu] : state_.gpus)
    if (gpu.host == host.name) state_.activity.erase(uuid);
  for (std::size_t i = 0; i < report.gpus.size(); ++i) state_.activity[report.gpus[i].uuid] = report.activity[i];
  for (const Gpu& gpu : report.gpus) XOE_TRY(note_unleased(gpu));
  observe(report, since);
  return {};
}

Status Pool::save_facts(const HostReport& report) {
  const auto [host, is_new] = state_.hosts.try_emplace(report.host, Host{.name = report.host, .heard = now_});
  if (is_new || host->second.without != report.without) {
    host->second.without = report.without;
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
  const std::string users = users_of(state_.unleased_processes(gpu));
  std::string& before = unleased_[gpu.uuid];
  if (before == users) return {};
  before = users;
  return users.empty() ? log("pool", "unleased-use-over", 0, gpu.uuid, {})
                       : log("pool", "unleased-use", 0, gpu.uuid, "in use without a lease by " + users);
}

// Samples of leases that have GPUs there, and the usage of their users.
void Pool::observe(const HostReport& report, Span since) {
  std::map<std::int64_t, IdleSample> samples;
  for (std::size_t i = 0; i < report.gpus.size(); ++i) {
    const Lease* const lease = state_.holder_of(report.gpus[i].uuid);
    if (lease == nullptr) continue;
    const GpuActivity& seen = report.activity[i];
    IdleSample& sample = samples[lease->id];
    sample.at = now_;
    sample.stands_for = std::min({since, now_ - lease->begins, kMaxSampleSpan});
    sample.utilisation = std::max(sample.utilisation, static_cast<double>(seen.utilisation));
    sample.processes |= !seen.processes.empty();
    for (const GpuProcess& process : seen.processes) sample.cpus += process.cpu;
    UsageRow& usage = usage_[{lease->user, lease->team}];
    const bool busy = seen.utilisation >= state_.policy.idle.utilisation && !seen.processes.empty();
    (busy ? usage.busy : usage.idle) += std::min(since, now_ - lease->begins);
  }
  for (const auto& [id, sample] : samples) windows_[id].add(sample, state_.policy.idle);
}

Status Pool::flush_usage() {
  for (auto& [key, usage] : usage_) {
    usage.hour = hour_of(now_);
    std::tie(usage.user, usage.team) = key;
    XOE_TRY(kept(store_.add_usage(usage)));
  }
  usage_.clear();
  usage_stored_ = now_;
  return {};
}

std::vector<std::int64_t> Pool::processes_to_end(const std::string& host) const {
  std::vector<std::int64_t> pids;
  for (const auto& [id, lease] : state_.leases) {
    if (!lease.is_open() || lease.idle_phase != IdlePhase::kSignalled) continue;
    for (const std::string& uuid : lease.gpus) {
      const auto gpu = state_.gpus.find(uuid);
      if (gpu == state_.gpus.end() || gpu->second.host != host || !state_.is_present(gpu->second)) continue;
      for (const GpuProcess& process : state_.activity.at(uuid).processes) pids.push_back(process.pid);
    }
  }
  return pids;
}

std::vector<Drift> Pool::drift() const {
  std::vector<Drift> found;
  for (const auto& [uuid, gpu] : state_.gpus) {
    const auto add = [&](std::int64_t lease, std::string what) {
      found.push_back({uuid, gpu.host, lease, std::move(what)});
    };
    const Lease* const lease = state_.holder_of(uuid);
    const auto seen = state_.activity.find(uuid);
    if (!state_.is_present(gpu)) {
      if (lease != nullptr) add(lease->id, fmt::format("leased by {}, but not seen: its host or the GPU is gone", lease->user));
      continue;
    }
    const auto& processes = seen->second.processes;
    if (lease == nullptr) {
      if (!processes.empty()) add(0, "in use without a lease by " + users_of(processes));
      continue;
    }
    std::vector<GpuProcess> others;
    std::ranges::copy_if(processes, std::back_inserter(others),
                         [&](const GpuProcess& process) { return process.user != lease->user; });
    if (!others.empty()) add(lease->id, fmt::format("leased by {}, used by {}", lease->user, users_of(others)));
    if (processes.empty() && now_ - lease->begins > std::chrono::minutes(5))
      add(lease->id, fmt::format("leased by {}, without a process", lease->user));
  }
  return found;
}

}  // namespace xoe::pool

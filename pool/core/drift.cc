#include "pool/core/drift.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "pool/core/targets.h"

namespace xoe::pool {
namespace {

constexpr Span kTimeToOpen = std::chrono::seconds(10);  // for an agent that learns of a lease

}  // namespace

std::string processes_text(const std::vector<GpuProcess>& processes) {
  constexpr std::size_t kNamed = 8;
  std::vector<std::string> parts;
  for (const GpuProcess& process : processes)
    if (parts.size() < kNamed)
      parts.push_back(
          fmt::format("{} (process {})", process.user.empty() ? "an unknown user" : process.user, process.pid));
  if (processes.size() > kNamed) parts.push_back(fmt::format("{} more", processes.size() - kNamed));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string use_text(const GpuActivity& seen) {
  if (!seen.processes.empty()) return processes_text(seen.processes);
  return fmt::format("processes that the driver does not list ({}{} MiB of memory used)",
                     seen.utilisation ? fmt::format("{} % busy, ", *seen.utilisation) : "", seen.memory_used >> 20U);
}

std::vector<std::int64_t> processes_to_end(const State& state, std::string_view host) {
  std::vector<std::int64_t> pids;
  for (const auto& [id, lease] : state.leases) {
    if (!lease.is_open() || lease.idle_phase != IdlePhase::kSignalled) continue;
    for (const std::string& uuid : lease.gpus) {
      const auto gpu = state.gpus.find(uuid);
      if (gpu == state.gpus.end() || gpu->second.host != host || !state.is_present(gpu->second)) continue;
      for (const GpuProcess& process : state.activity.at(uuid).processes) pids.push_back(process.pid);
    }
  }
  return pids;
}

std::vector<GpuHolder> holders_on(const State& state, std::string_view host) {
  std::vector<GpuHolder> holders;
  for (const auto& [id, lease] : state.leases) {
    if (!lease.is_open() || lease.request.backend() != Backend::kHost) continue;
    for (const std::string& uuid : lease.gpus)
      if (const auto gpu = state.gpus.find(uuid); gpu != state.gpus.end() && gpu->second.host == host)
        holders.push_back({uuid, lease.user});
  }
  return holders;
}

std::vector<Drift> find_drift(const State& state, Time now) {
  std::vector<Drift> found;
  for (const auto& item : state.gpus) {
    const std::string& uuid = item.first;
    const Gpu& gpu = item.second;
    const auto add = [&](std::int64_t lease, std::string what) {
      found.push_back({uuid, gpu.host, lease, std::move(what)});
    };
    const Lease* const lease = state.holder_of(uuid);
    const auto seen = state.activity.find(uuid);
    if (!state.is_present(gpu)) {
      if (lease != nullptr)
        add(lease->id, fmt::format("leased by {}, but not seen: its host or the GPU is gone", lease->user));
      continue;
    }
    if (lease == nullptr && seen->second.is_stale()) continue;  // what it shows may be of the holder that has left
    if (gpu.backend() == Backend::kSlurm && lease != nullptr && seen->second.processes.empty()) {
      const std::string& problem = state.hosts.at(gpu.host).problem;
      add(lease->id, fmt::format("leased by {}, not allocated by Slurm yet{}{}", lease->user,
                                 problem.empty() ? "" : ": ", problem));
      continue;
    }
    if (gpu.backend() == Backend::kVsphere) {
      for (std::string& what : vm_drift(state, gpu, lease)) add(lease == nullptr ? 0 : lease->id, std::move(what));
      continue;
    }
    const auto& processes = seen->second.processes;
    if (lease == nullptr) {
      if (state.is_used(gpu)) add(0, "in use without a lease by " + use_text(seen->second));
      continue;
    }
    if (seen->second.is_closed_to(lease->user) && now - lease->begins > kTimeToOpen) {
      const std::string& problem = state.hosts.at(gpu.host).problem;
      add(lease->id, fmt::format("leased by {}, to whom its device file is closed{}{}", lease->user,
                                 problem.empty() ? "" : ": ", problem));
    }
    std::vector<GpuProcess> others;
    std::ranges::copy_if(processes, std::back_inserter(others),
                         [&](const GpuProcess& process) { return process.user != lease->user; });
    if (!others.empty()) add(lease->id, fmt::format("leased by {}, used by {}", lease->user, processes_text(others)));
    if (seen->second.processes_known && !state.is_used(gpu) && now - lease->begins > std::chrono::minutes(5))
      add(lease->id, fmt::format("leased by {}, without a process", lease->user));
  }
  return found;
}

}  // namespace xoe::pool

#include "pool/core/forget.h"

#include <algorithm>

#include <fmt/format.h>

namespace xoe::pool {
namespace {

const Lease* lease_that_needs(const State& state, const Gpu& gpu) {
  for (const auto& [id, lease] : state.leases)
    if (std::ranges::count(lease.gpus, gpu.uuid) != 0 || std::ranges::count(lease.request.exact, gpu.uuid) != 0)
      return &lease;
  return nullptr;
}

bool has(const HostReport& report, const std::string& uuid) {
  return std::ranges::find(report.gpus, uuid, &Gpu::uuid) != report.gpus.end();
}

}  // namespace

bool can_forget(const State& state, const Gpu& gpu) {
  return !state.activity.contains(gpu.uuid) && lease_that_needs(state, gpu) == nullptr;
}

std::vector<std::string> gpus_to_forget_for(const State& state, const HostReport& report, Time now) {
  std::vector<std::string> uuids;
  for (const auto& [uuid, gpu] : state.gpus) {
    if (has(report, uuid)) continue;
    const auto host = state.hosts.find(gpu.host);
    const bool is_here = gpu.host == report.host;
    const bool is_known = host != state.hosts.end();
    // Hosts that come back are given time for it.
    const bool is_gone = is_known && !host->second.online && host->second.heard < now - kForgetAfter;
    const bool is_missing = is_here || is_gone || (is_known && host->second.online && can_forget(state, gpu));
    if (is_missing && lease_that_needs(state, gpu) == nullptr) uuids.push_back(uuid);
  }
  return uuids;
}

std::string why_host_stays(const State& state, const Host& host) {
  if (host.online) return "it is online; end its agent first";
  for (const auto& [uuid, gpu] : state.gpus) {
    if (gpu.host != host.name) continue;
    if (const Lease* const lease = lease_that_needs(state, gpu))
      return fmt::format("lease {} of {} needs {}", lease->id, lease->user, uuid);
  }
  return {};
}

void MissingGpus::observe(const State& state, const HostReport& report, Time now) {
  for (const auto& [uuid, gpu] : state.gpus) {
    if (gpu.host != report.host) continue;
    if (has(report, uuid))
      since_.erase(uuid);
    else
      since_.try_emplace(uuid, now);
  }
}

std::vector<std::string> MissingGpus::expired(const State& state, const std::string& host, Time now) const {
  std::vector<std::string> uuids;
  for (const auto& [uuid, since] : since_) {
    const auto gpu = state.gpus.find(uuid);
    if (gpu == state.gpus.end() || gpu->second.host != host || now - since < kForgetAfter) continue;
    if (can_forget(state, gpu->second)) uuids.push_back(uuid);
  }
  return uuids;
}

}  // namespace xoe::pool

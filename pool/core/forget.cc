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

// Hosts that come back are given time for it, also after a server that did not run.
bool is_gone(const State& state, const Host& host, Time now) {
  return !host.online && std::max(host.heard, state.begun.value_or(now)) < now - kForgetAfter;
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
    const bool is_missing =
        is_here || (is_known && (is_gone(state, host->second, now) || (host->second.online && can_forget(state, gpu))));
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

std::vector<std::string> hosts_to_forget_for(const State& state, const HostReport& report, Time now) {
  std::map<std::string_view, std::size_t> vms;
  for (const auto& [id, vm] : state.vms) ++vms[vm.host];
  const bool is_known = state.hosts.contains(report.host);
  std::size_t hosts_left = state.hosts.size() + (is_known ? 0 : 1);
  std::size_t vms_left = state.vms.size() + report.vms.size() - (vms.contains(report.host) ? vms.at(report.host) : 0);
  const auto fits = [&] { return (is_known || hosts_left <= kMaxHosts) && vms_left <= kMaxVms; };
  if (fits()) return {};
  std::vector<const Host*> gone;
  for (const auto& [name, host] : state.hosts)
    if (name != report.host && is_gone(state, host, now) && why_host_stays(state, host).empty()) gone.push_back(&host);
  std::ranges::stable_sort(gone, {}, &Host::heard);
  std::vector<std::string> names;
  for (const Host* const host : gone) {
    if (fits()) break;
    --hosts_left;
    vms_left -= vms.contains(host->name) ? vms.at(host->name) : 0;
    names.push_back(host->name);
  }
  return names;
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

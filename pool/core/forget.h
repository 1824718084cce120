// GPUs and hosts that are no more: MIG instances get other UUIDs when a host starts again, agents in Pods come with
// other names of hosts, and what the pool knew of them must make room.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "pool/model/state.h"

namespace xoe::pool {

inline constexpr Span kForgetAfter = std::chrono::hours(24);  // a GPU that its host does not report, a silent host
inline constexpr std::size_t kMaxHosts = 4096;
inline constexpr std::size_t kMaxVms = 16384;

// No lease holds it, has a plan with it or waits for it by name, and the last report of its host did not have it.
bool can_forget(const State& state, const Gpu& gpu);

// Those of `host` that its new report does not have, and those of other hosts that are online: what makes room for GPUs
// that were not known.
std::vector<std::string> gpus_to_forget_for(const State& state, const HostReport& report, Time now);

// Why a host cannot be forgotten with its GPUs: it is online, or a lease needs one of them. Empty: it can.
std::string why_host_stays(const State& state, const Host& host);

// Hosts that have been silent for kForgetAfter and whose GPUs no lease needs, the one that is silent longest first: as
// many as must go so that the host of `report` and its VMs have room, or all of them where those are too few.
std::vector<std::string> hosts_to_forget_for(const State& state, const HostReport& report, Time now);

// Since when GPUs are missing from the reports of their hosts, as far as this process has seen. One thread at a time.
class MissingGpus {
 public:
  void observe(const State& state, const HostReport& report, Time now);
  // Those of the host that have been missing for long and can be forgotten.
  std::vector<std::string> expired(const State& state, const std::string& host, Time now) const;
  void forget(const std::string& uuid) { since_.erase(uuid); }
  // With the clock.
  void move_times(Span by) {
    for (auto& [uuid, since] : since_) since += by;
  }

 private:
  std::map<std::string, Time, std::less<>> since_;
};

}  // namespace xoe::pool

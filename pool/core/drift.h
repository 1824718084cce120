// Differences between the leases and what is seen on the GPUs: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pool/model/state.h"

namespace xoe::pool {

struct Drift {
  std::string gpu = {};
  std::string host = {};
  std::int64_t lease = 0;  // 0: none
  std::string what = {};   // "in use without a lease by bob (process 123)"
};
std::vector<Drift> find_drift(const State& state, Time now);

// The processes on a host whose leases are about to be reclaimed as idle: they shall end.
std::vector<std::int64_t> processes_to_end(const State& state, std::string_view host);

// For the agent of a host: who holds each of its GPUs that programs use.
struct GpuHolder {
  std::string gpu = {};
  std::string user = {};
};
std::vector<GpuHolder> holders_on(const State& state, std::string_view host);

// "ann (process 12), bob (process 13)"
std::string processes_text(const std::vector<GpuProcess>& processes);
// The processes, or what else shows that the GPU is used.
std::string use_text(const GpuActivity& seen);

}  // namespace xoe::pool

// Which cpus each rank of this host is bound to.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/env.h"
#include "launch/options/options.h"
#include "launch/plan/cores.h"
#include "launch/plan/host_facts.h"
#include "xoe/status.h"

namespace xoe::launch {

struct BoundRanks {
  std::vector<std::vector<int>> cpus;  // by local rank; empty: not bound
  std::string locality = {};           // for the user: what chose the memory; empty: only the ranks' order did
};

// `invalid_argument` or `resource_exhausted` for a binding that this host does not have. numa: near the GPU of each
// rank where that is known; else in blocks over all memories, beginning with the one that is near the facts'
// interface.
Result<BoundRanks> bind_ranks(Binding binding, bool by_socket, std::size_t ranks, const Env& variables,
                              const HostFacts& facts);

// For --dry-run, which connects to no host.
std::string_view describe(Binding binding);

// The cpus near the GPU of each local rank; empty where there are fewer GPUs than ranks or their locality is not known.
std::vector<std::vector<int>> cpus_near_gpus(const Env& variables, std::size_t ranks, const std::vector<CpuCore>& cores,
                                             const GpuFiles& files);

}  // namespace xoe::launch

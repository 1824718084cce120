// Which cpus each rank of this host is bound to.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "launch/cores.h"
#include "launch/options.h"
#include "launch/plan.h"
#include "xoe/status.h"

namespace xoe::launch {

struct BoundRanks {
  std::vector<std::vector<int>> cpus;  // by local rank; empty: not bound
  std::string near = {};               // what the memory was chosen by, in words; empty: by nothing but their order
};

// `invalid_argument` or `resource_exhausted` for a binding that this host does not have. numa: near the GPU of each
// rank where that is known; else in blocks over all memories, of which the first rank has the one that the facts'
// interface is near.
Result<BoundRanks> bind_ranks(Binding binding, bool by_socket, std::size_t ranks, const Env& variables,
                              const HostFacts& facts);

// In words, for --dry-run: what a host does that is not asked.
std::string_view describe(Binding binding);

// The cpus near the GPU that each rank uses, the one of its local rank; empty where there are fewer GPUs than ranks or
// their places are not known.
std::vector<std::vector<int>> cpus_near_gpus(const Env& variables, std::size_t ranks, const std::vector<Core>& cores,
                                             const GpuFiles& files);

}  // namespace xoe::launch

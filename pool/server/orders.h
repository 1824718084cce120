// The answer to a report of an agent.
#pragma once

#include <cstdint>
#include <vector>

#include "pool/core/drift.h"
#include "pool/model/state.h"

namespace xoe::pool::wire {

// What the agent shall do.
struct Orders {
  std::vector<std::int64_t> end = {};
  std::vector<VmAssignment> vms = {};
  std::vector<GpuHolder> holders = {};
  std::vector<ClusterLease> leases = {};
};

}  // namespace xoe::pool::wire

// The facts about a host that a plan of its ranks needs.
#pragma once

#include <string>
#include <vector>

#include "launch/plan/locality.h"
#include "xoe/status.h"

namespace xoe::launch {

// Tests give their own.
struct HostFacts {
  std::vector<int> allowed_cpus;
  int usable_cores = 1;
  std::string sysfs = "/sys/devices/system/cpu";
  GpuFiles gpus = {};
  std::string net = "/sys/class/net";
  std::string interface = {};  // of the ranks' traffic to other hosts; empty: none, or not known
};

Result<HostFacts> read_host_facts();

}  // namespace xoe::launch

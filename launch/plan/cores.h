// The processors that this process may use, and how ranks share them.
#pragma once

#include <string>
#include <vector>

#include "launch/options/options.h"
#include "xoe/status.h"

namespace xoe::launch {

// The hardware threads of one core, on one socket, near one memory.
struct CpuCore {
  std::vector<int> cpus;
  int socket = 0;
  int numa = 0;
};

// "0-3,8" to {0, 1, 2, 3, 8}; `invalid_argument` for anything else.
Result<std::vector<int>> parse_cpu_list(const std::string& text);

// The cpus of this process's affinity mask, ascending.
Result<std::vector<int>> allowed_cpus();

// Cores by socket, of the allowed cpus, from `sysfs` (/sys/devices/system/cpu).
Result<std::vector<CpuCore>> read_cores(const std::vector<int>& allowed, const std::string& sysfs);

// The cpus of each rank. core: consecutive cores, as many for each rank as there are for all; `resource_exhausted` when
// ranks outnumber cores. socket, numa: all allowed cpus of one of them. Neighbouring ranks are on one socket; with
// `by_socket` the sockets take turns. Memories are taken from `first_numa` on, the others follow in their order.
Result<std::vector<std::vector<int>>> share_cores(const std::vector<CpuCore>& cores, int ranks, Binding binding,
                                                  bool by_socket = false, int first_numa = -1);

// "0-3,8" of ascending or other cpus.
std::string cpu_list_text(std::vector<int> cpus);

// All allowed cpus near these memories; empty when one of them has none.
std::vector<std::vector<int>> cpus_near(const std::vector<CpuCore>& cores, const std::vector<int>& numa_nodes);

// How many cores a job of this process may keep busy: hardware threads of one core count once, and
// a container's quota of processor time is a limit too. At least 1.
int usable_cores(std::size_t allowed_cpus);

}  // namespace xoe::launch

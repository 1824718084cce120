#include "data/tune/cpus.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/cgroup.h"

namespace xoe::data {
namespace {

// CPUs that a process may run on; 0: not known.
int affinity_of(pid_t process) {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(process, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

}  // namespace

int given_cpus(int processes, const std::string& root) {
  const int sharing = std::max(processes, 1);
  const auto online = static_cast<int>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 1L));
  const int mine = affinity_of(0);
  const int launcher = affinity_of(::getppid());
  int allowed = mine > 0 ? mine : online;
  // A launcher that binds leaves each rank fewer CPUs than it has itself; else all share what they inherited.
  const bool bound = sharing > 1 && launcher > 0 && mine > 0 && mine < launcher;
  if (!bound) allowed /= sharing;
  if (const auto quota = read_cpu_quota(root); quota && *quota / sharing < allowed)
    allowed = static_cast<int>(*quota / sharing);
  return std::max(allowed, 1);
}

}  // namespace xoe::data

#include "data/tune/cpus.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <vector>

namespace xoe::data {
namespace {

constexpr double kNoQuota = 1e9;

// "100000 50000" is two CPUs for half of the time; "max" is no quota.
double quota_in(const std::string& path) {
  std::ifstream file(path);
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return kNoQuota;
  return std::strtod(quota.c_str(), nullptr) / period;
}

double old_quota_in(const std::string& folder) {
  double quota = 0;
  double period = 0;
  std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
  std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  return quota > 0 && period > 0 ? quota / period : kNoQuota;
}

// The tightest quota on the way from this process's group up to the root.
double cgroup_quota(const std::string& root) {
  double least = kNoQuota;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool old = controllers == "cpu,cpuacct" || controllers == "cpu" || controllers == "cpuacct,cpu";
    if (!controllers.empty() && !old) continue;
    for (std::string group = line.substr(second + 1);; group.resize(group.rfind('/'))) {
      const std::string folder = root + "/sys/fs/cgroup" + (old ? "/cpu" : "") + (group == "/" ? "" : group);
      least = std::min(least, old ? old_quota_in(folder) : quota_in(folder + "/cpu.max"));
      if (group.find('/') == std::string::npos) break;
    }
  }
  return least;
}

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
  const double quota = cgroup_quota(root) / sharing;
  if (quota < allowed) allowed = static_cast<int>(quota);
  return std::max(allowed, 1);
}

}  // namespace xoe::data

// Everything about a job that is known before its first process: checked, and nothing started yet.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "launch/options.h"
#include "xoe/status.h"

namespace xoe::launch {

// Xoe's shared-memory engine keeps one word of flags with a bit for each rank of a host.
inline constexpr int kMostRanksPerHost = 64;

struct RankPlan {
  std::vector<std::string> environment;  // NAME=value, whole
  std::vector<int> cpus;                 // empty: not bound
};

struct JobPlan {
  std::string program;  // path
  std::vector<std::string> arguments;
  std::string job;
  std::string store;  // address
  std::string secret;
  std::vector<RankPlan> ranks;
};

// What the plan is made for; a test gives its own.
struct HostFacts {
  std::vector<int> allowed_cpus;
  int usable_cores = 1;
  std::string sysfs = "/sys/devices/system/cpu";
};
Result<HostFacts> read_host_facts();

// `invalid_argument` or `resource_exhausted` for options that cannot be met. `token` is random: it names the job.
Result<JobPlan> plan_job(const RunOptions& options, const Env& env, const HostFacts& host, const std::string& program,
                         const std::string& token, const std::string& secret);

}  // namespace xoe::launch

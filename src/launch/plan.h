// Everything about a job that is known before its first process: checked, and nothing started yet.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/env.h"
#include "launch/gpu_places.h"
#include "launch/options.h"
#include "xoe/status.h"

namespace xoe::launch {

// Xoe's shared-memory engine keeps one word of flags with a bit for each rank of a host.
inline constexpr int kMostRanksPerHost = 64;

// Variables that a rank has from the launcher alone, never from its environment or the user.
bool set_by_launcher(std::string_view name) noexcept;
// `invalid_argument` for --env that would set one of them.
Status check_env(const RunOptions& options);
// What --env NAME passes on; `invalid_argument` for a variable that is not set here.
Result<std::vector<std::pair<std::string, std::string>>> passed_variables(const RunOptions& options, const Env& env);

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
  std::string near = {};  // in words: what chose the cpus of ranks that are bound, if anything did
};

// What the plan is made for; a test gives its own.
struct HostFacts {
  std::vector<int> allowed_cpus;
  int usable_cores = 1;
  std::string sysfs = "/sys/devices/system/cpu";
  GpuFiles gpus = {};
  std::string net = "/sys/class/net";
  std::string interface = {};  // that the ranks' traffic takes to other hosts; empty: none, or not known
};
Result<HostFacts> read_host_facts();

// `invalid_argument` or `resource_exhausted` for options that cannot be met. `token` is random: it names the job.
Result<JobPlan> plan_job(const RunOptions& options, const Env& env, const HostFacts& host, const std::string& program,
                         const std::string& token, const std::string& secret);

}  // namespace xoe::launch

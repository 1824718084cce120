// The plan of one host's ranks: checked before the first process is started.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/env.h"
#include "launch/options/options.h"
#include "launch/plan/agent_job.h"
#include "launch/plan/host_facts.h"
#include "xoe/status.h"

namespace xoe::launch {

// `invalid_argument` for a rank of --only-rank that the job does not have.
Status check_only_ranks(const RunOptions& options);

// Variables that only the launcher sets for a rank, never its environment or the user.
bool set_by_launcher(std::string_view name) noexcept;
// `invalid_argument` for an --env that would set one of them.
Status check_env(const RunOptions& options);
// The variables that --env NAME passes on; `invalid_argument` for one that is not set here.
Result<std::vector<std::pair<std::string, std::string>>> passed_variables(const RunOptions& options, const Env& env);

struct RankPlan {
  std::vector<std::string> environment;  // all of it, each NAME=value
  std::vector<int> cpus;                 // empty: not bound
};

struct JobPlan {
  std::string program;  // path
  std::vector<std::string> arguments;
  std::string job;
  std::string store;  // address
  std::string secret;
  std::vector<RankPlan> ranks;
  bool jax = false;           // ranks are told what JAX reads
  std::string locality = {};  // for the user: what chose the cpus of bound ranks; empty: only their order did
};

// A job on this host alone. `invalid_argument` or `resource_exhausted` for options that cannot be met. `token`: random,
// names the job.
Result<JobPlan> plan_job(const RunOptions& options, const Env& env, const HostFacts& host, const std::string& program,
                         const std::string& token, const std::string& secret);

// The variables that all ranks of an agent's host share: `own`, the agent's, overridden by the job's.
Env agent_env(const AgentJob& job, const Env& own);
// The agent's plan of its host's part of a job. `variables`: from agent_env(). `invalid_argument` or
// `resource_exhausted` for a binding that this host does not have.
Result<JobPlan> plan_host(const AgentJob& job, const Env& variables, const HostFacts& facts,
                          const std::string& program);
// The entry of CUDA_VISIBLE_DEVICES for each local rank; empty where the list has fewer entries than there are ranks.
std::vector<std::string> share_devices(const Env& variables, std::size_t ranks);

}  // namespace xoe::launch

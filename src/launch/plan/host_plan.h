// The agent's plan of its host's part of a job, made before it starts anything.
#pragma once

#include "base/env.h"
#include "launch/agents/agent_job.h"
#include "launch/plan/job_plan.h"
#include "xoe/status.h"

namespace xoe::launch {

// The variables that all ranks of this host share: `own`, the agent's, overridden by the job's.
Env agent_env(const AgentJob& job, const Env& own);

// `variables`: from agent_env(). `invalid_argument` or `resource_exhausted` for a binding that this host does not have.
Result<JobPlan> plan_host(const AgentJob& job, const Env& variables, const HostFacts& facts,
                          const std::string& program);

// The entry of CUDA_VISIBLE_DEVICES for each local rank; empty where the list has fewer entries than there are ranks.
std::vector<std::string> share_devices(const Env& variables, std::size_t ranks);

}  // namespace xoe::launch

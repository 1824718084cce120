// What an agent makes of its host's part of a job before it starts anything.
#pragma once

#include "base/env.h"
#include "launch/agent_frames.h"
#include "launch/plan.h"
#include "xoe/status.h"

namespace xoe::launch {

// The variables of this host's ranks, those that are the same for all: `own`, the agent's, then the job's.
Env agent_env(const AgentJob& job, const Env& own);

// `variables` of agent_env(). `invalid_argument` or `resource_exhausted` for a binding that this host does not have.
Result<JobPlan> plan_host(const AgentJob& job, const Env& variables, const HostFacts& facts,
                          const std::string& program);

// The entry of CUDA_VISIBLE_DEVICES for each local rank; empty where the list has fewer entries than there are ranks.
std::vector<std::string> share_devices(const Env& variables, std::size_t ranks);

}  // namespace xoe::launch

// Joins ranks that are on several hosts.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "core/backend/backend.h"
#include "core/backend/choose_backend.h"
#include "core/base/env.h"
#include "core/bootstrap/launch_info.h"
#include "core/comm/joined.h"
#include "xoe/status.h"

namespace xoe {

// The user's settings for a job.
struct JoinSettings {
  WaitPolicy waits = {};                     // of operations
  std::chrono::nanoseconds start_timeout{};  // until all ranks must have appeared
  std::chrono::nanoseconds connect_limit{};  // for their hosts to connect then; zero: the same
  std::size_t arena_bytes = 0;
  int simulated_hosts = 1;
  Warn warn = {};
};

// The key of a group of ranks who know the job's secret.
std::string key_of(std::string_view secret, std::string_view group);

// Collective over the job's ranks.
Result<Joined> join_many_hosts(bootstrap::LaunchInfo info, const Env& env, const JoinSettings& settings,
                               const BackendChoice& choice);

}  // namespace xoe

// Joins ranks over an engine between hosts.
#pragma once

#include <chrono>
#include <memory>

#include "backend/backend.h"
#include "backend/choose_backend.h"
#include "base/env.h"
#include "bootstrap/launch_env.h"
#include "xoe/status.h"

namespace xoe {

// What the user may set for any job.
struct JoinSettings {
  std::chrono::nanoseconds timeout{};   // of operations
  std::chrono::nanoseconds patience{};  // for all ranks to appear
  std::size_t arena_bytes = 0;
  int pretended_hosts = 1;
};

// Collective over the job's ranks.
Result<std::unique_ptr<Backend>> join_many_hosts(bootstrap::LaunchInfo info, const Env& env,
                                                 const JoinSettings& settings, const BackendChoice& choice);

}  // namespace xoe

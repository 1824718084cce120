// A rank tells its launcher that it is failing, before it ends: peers that end because of it may be faster.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string_view>

#include "base/env.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

// In the launcher's store, of the rank's slot: "failing_rank/3", with the process as its value.
inline constexpr std::string_view kFailingRankKey = "failing_rank";

struct FailingRank {
  int rank = 0;
  pid_t pid = 0;
  std::chrono::steady_clock::time_point at = {};  // when the launcher learnt it
};

// This process, to the launcher that `env` describes; without one nothing is said. Has arrived when it returns.
Status announce_failing(const Env& env);

}  // namespace xoe::bootstrap

// `xoe run` over several hosts.
#pragma once

#include "base/env.h"
#include "launch/plan/hosts_plan.h"
#include "launch/options/options.h"
#include "xoe/status.h"

namespace xoe::tools {

// Starts the job on `list`, or only says what it would do. Returns the exit code.
int run_on_hosts(launch::RunOptions& options, const launch::HostList& list, const Env& env);

// One line on stderr.
void say(std::string_view line);

}  // namespace xoe::tools

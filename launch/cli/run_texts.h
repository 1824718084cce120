// What `xoe run` prints of itself.
#pragma once

#include <string_view>

#include "launch/agents/agent_startup.h"
#include "launch/output/report.h"
#include "xoe/status.h"

namespace xoe::tools {

inline constexpr int kLauncherFailed = 125;

// A line on stderr.
void say(std::string_view line);
// Says why, and returns the exit code.
int fail(const Error& error, int code);
// The user can mend a bad request; anything else is a failure of the host.
int fail(const Error& error);
// On stdout. Returns the exit code.
int print(std::string_view text);
void say_report(const launch::JobOutcome& outcome, const launch::RunOptions& options);
// On stdout, of --check.
void print_check(const launch::HostCheck& check);

}  // namespace xoe::tools

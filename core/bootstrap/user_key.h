// A secret of the user's processes on all hosts, for launchers that do not provide one.
#pragma once

#include <string>
#include <string_view>

#include "core/base/env.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

// The job's secret: XOE_SECRET, or derived from the user's key. The key is a file of random bytes (XOE_KEY_FILE, by
// default ~/.config/xoe/key), which is created when it is missing, and which hosts with a common home directory share.
// `unavailable` when others can read the file, or this process cannot.
Result<std::string> job_secret(const Env& env, std::string_view job);

}  // namespace xoe::bootstrap

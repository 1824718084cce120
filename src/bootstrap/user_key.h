// A secret that the user's processes on all hosts know where no launcher gives them one.
#pragma once

#include <string>
#include <string_view>

#include "base/env.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

// The job's secret: XOE_SECRET, or else made from the user's key, a file of random bytes in the home directory
// (XOE_KEY_FILE, ~/.config/xoe/key) that is made when it is missing and that hosts with one home directory share.
// `unavailable` when the file can be read by others, or not by us.
Result<std::string> job_secret(const Env& env, std::string_view job);

}  // namespace xoe::bootstrap

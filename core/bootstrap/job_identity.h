// An identity for jobs whose launcher does not name them.
#pragma once

#include <string>
#include <string_view>

#include "xoe/status.h"

namespace xoe::bootstrap {

// "PID-START" of the launcher: the nearest ancestor that was started without the variable `marker`, which the launcher
// sets, or whose program's name begins with `program`. Shells in between are skipped, so that all ranks find the same
// process; the start time distinguishes reused pids.
Result<std::string> launcher_above(std::string_view marker, std::string_view program);

}  // namespace xoe::bootstrap

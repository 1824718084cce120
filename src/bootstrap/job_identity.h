// A name for a job whose launcher gives none.
#pragma once

#include <string>
#include <string_view>

#include "xoe/status.h"

namespace xoe::bootstrap {

// "PID-START" of the launcher above this process: its nearest ancestor that was started without the variable `marker`,
// which the launcher sets, or whose program's name begins with `program`. Shells between the two are passed over,
// so that all ranks find the same one; the start time tells a reused pid apart.
Result<std::string> launcher_above(std::string_view marker, std::string_view program);

}  // namespace xoe::bootstrap

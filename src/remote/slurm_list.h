// Slurm's short form of lists of hosts: "n[1-3,07],login".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "xoe/status.h"

namespace xoe::remote {

// Leading zeros of a range's first number are kept; several brackets in one name multiply. `invalid_argument` for a
// malformed list and for more than 65536 names.
Result<std::vector<std::string>> expand_hostlist(std::string_view text);

}  // namespace xoe::remote

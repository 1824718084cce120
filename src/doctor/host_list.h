// The hosts that a user names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "xoe/status.h"

namespace xoe::doctor {

// "a,b", "a:4,user@b:2": each name once, in order; numbers of slots are of no concern here. IPv6 addresses in brackets.
// invalid_argument for a name that ssh could take for an option, or that has characters which no name has.
Result<std::vector<std::string>> parse_hosts(std::string_view text);
// Lines "a", "a:4" or "a slots=4"; # begins a comment.
Result<std::vector<std::string>> parse_hostfile(std::string_view text, std::string_view path);

}  // namespace xoe::doctor

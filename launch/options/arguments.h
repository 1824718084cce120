// The command line of `xoe run`. It is parsed by hand: parsers of POSIX style do not understand -np, and the launcher's
// time to start is part of every job.
#pragma once

#include <span>
#include <string_view>

#include "launch/options/run_arguments.h"
#include "xoe/status.h"

namespace xoe::launch {

// `arguments` follow the word `run`. Options end at the first word that is not an option, or at --; the rest
// is the program and its arguments. `invalid_argument` says what is wrong, and names the option that was meant if one
// is near.
Result<RunArguments> parse_run_arguments(std::span<const std::string_view> arguments);

}  // namespace xoe::launch

// Finds a program before anything is started.
#pragma once

#include <string>
#include <string_view>

#include "core/base/env.h"
#include "xoe/status.h"

namespace xoe::remote {

// The path that execvp would take for `program`. `unavailable`: there is no such program (a shell's exit code 127);
// `invalid_argument`: it exists but cannot be executed (126).
Result<std::string> find_program(std::string_view program, const Env& env);

// XOE_PACKAGE_PYTHON, which says to which Python the package belongs whose `xoe` was called; else `python`, or
// `python3` where PATH has only that.
std::string python_program(const Env& env);

}  // namespace xoe::remote

// Starts the program of `xoe pool run`.
#pragma once

#include <csignal>
#include <string>
#include <vector>

#include "pool/enforce/device_rule.h"
#include "xoe/status.h"

namespace xoe::tools::pool {

// In this process's group, so that the terminal stays the program's; it is killed when this process ends. `passed`: a
// descriptor for it; -1: none. rule: for the program; nullptr: none.
Result<pid_t> start_program(const std::vector<std::string>& program, const sigset_t& mask, int passed,
                            const xoe::pool::DeviceRule* rule);

}  // namespace xoe::tools::pool

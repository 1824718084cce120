// The children of this process, from /proc.
#pragma once

#include <sys/types.h>

#include <vector>

namespace xoe::launch {

// Those that ended and were not waited for too. A child cannot become somebody else's pid before it is waited for, so
// its owner may signal what is listed here.
std::vector<pid_t> children_of_this_process();

}  // namespace xoe::launch

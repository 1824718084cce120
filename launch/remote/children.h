// The children of this process, from /proc.
#pragma once

#include <sys/types.h>

#include <vector>

namespace xoe::remote {

// Includes children that ended and were not waited for. A child's pid is not reused before it is waited for, so that
// its parent may signal the pids listed here.
std::vector<pid_t> children_of_this_process();

// A child that is on its way out already, or has ended: no signal changes how it ends. Its peers may know before its
// parent can wait for it.
bool is_exiting(pid_t child);

}  // namespace xoe::remote

// Finds what a program has started, wherever that is by now: by an entry of the environment.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace xoe::tools::pool {

// Processes of this host with this entry, such as NAME=VALUE, in their environment.
std::vector<pid_t> processes_with(const std::string& entry);
// When it started, in a text that is another one for each process with this id; empty: there is none.
std::string start_of_process(pid_t pid);

}  // namespace xoe::tools::pool

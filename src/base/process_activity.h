// What another process of this host is doing.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>

namespace xoe {

struct ProcessActivity {
  std::chrono::nanoseconds used{0};  // CPU time, of its descendants too
  bool stopped = false;              // by a signal or a debugger
};

// nullopt: there is no such process.
std::optional<ProcessActivity> process_activity(pid_t pid);

}  // namespace xoe

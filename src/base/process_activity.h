// What another process of this host is doing.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <optional>

namespace xoe {

struct ProcessActivity {
  std::chrono::nanoseconds used{0};  // CPU time, of its descendants too
  bool stopped = false;              // by a signal or a debugger
  // When this was so or, of a process of another host, when that host told it. The clock's epoch: not told yet.
  std::chrono::steady_clock::time_point at = {};
};

// The CPU time of several processes. Those of which nothing is known count as idle.
struct CpuUse {
  std::chrono::nanoseconds used{0};
  std::chrono::steady_clock::time_point at = std::chrono::steady_clock::now();  // the oldest news

  void add(const std::optional<ProcessActivity>& activity) {
    if (!activity) return;
    used += activity->used;
    at = std::min(at, activity->at);
  }
};

// nullopt: there is no such process.
std::optional<ProcessActivity> process_activity(pid_t pid);

}  // namespace xoe

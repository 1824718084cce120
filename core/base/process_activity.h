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

// The CPU time of several processes. Those of which nothing is known count as idle. Another host's answer may come
// while this is read, so that the news of its processes is of different ages.
class CpuUse {
 public:
  using Time = std::chrono::steady_clock::time_point;

  CpuUse() = default;
  CpuUse(std::chrono::nanoseconds used, Time at) { add(ProcessActivity{.used = used, .at = at}); }

  void add(const std::optional<ProcessActivity>& activity) {
    if (!activity) return;
    used_ += activity->used;
    oldest_ = empty_ ? activity->at : std::min(oldest_, activity->at);
    newest_ = empty_ ? activity->at : std::max(newest_, activity->at);
    empty_ = false;
  }

  std::chrono::nanoseconds used() const noexcept { return used_; }
  Time oldest() const noexcept { return oldest_; }
  Time newest() const noexcept { return newest_; }

 private:
  std::chrono::nanoseconds used_{0};
  Time oldest_ = std::chrono::steady_clock::now();
  Time newest_ = oldest_;
  bool empty_ = true;
};

// nullopt: there is no such process.
std::optional<ProcessActivity> process_activity(pid_t pid);

}  // namespace xoe

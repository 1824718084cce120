// Ranks that failed and are about to be started again, by time.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "launch/supervise/supervisor.h"

namespace xoe::launch {

struct ScheduledRestart {
  std::chrono::steady_clock::time_point at;
  SupervisorEvent end;
  bool gone = false;  // the others have gone on without it
};

class RestartQueue {
 public:
  void add(const ScheduledRestart& restart) {
    waiting_.insert(std::ranges::upper_bound(waiting_, restart.at, {}, &ScheduledRestart::at), restart);
  }
  std::optional<std::chrono::steady_clock::time_point> next() const {
    return waiting_.empty() ? std::nullopt : std::optional(waiting_.front().at);
  }
  std::optional<ScheduledRestart> take_due(std::chrono::steady_clock::time_point now) {
    if (waiting_.empty() || now < waiting_.front().at) return std::nullopt;
    const ScheduledRestart due = waiting_.front();
    waiting_.erase(waiting_.begin());
    return due;
  }
  // Takes out those for which it is true.
  template <typename Test>
  std::vector<ScheduledRestart> take_if(const Test& test) {
    std::vector<ScheduledRestart> taken;
    std::ranges::copy_if(waiting_, std::back_inserter(taken), test);
    std::erase_if(waiting_, test);
    return taken;
  }
  // For which the others wait.
  int awaited() const { return static_cast<int>(std::ranges::count(waiting_, false, &ScheduledRestart::gone)); }

 private:
  std::vector<ScheduledRestart> waiting_;
};

}  // namespace xoe::launch

// Notices immediately when a process on this host ends.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "core/base/fd.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

// Waits on pidfds in a thread that sleeps until a process ends: no polling, no wake-ups.
class PeerWatch {
 public:
  // A pidfd, which refers to the same process even when its pid is reused.
  // `unavailable` when there is no such process.
  static Result<Fd> open(pid_t pid);

  // Calls ended(i), once for each i and from the watch's thread, when processes[i] has ended; invalid Fds are not
  // watched.
  static Result<std::unique_ptr<PeerWatch>> start(std::vector<Fd> processes, std::function<void(int)> ended);

  // Joins the thread; ended() is not called afterwards.
  ~PeerWatch();

 private:
  PeerWatch() = default;
  void watch(const std::vector<Fd>& processes, const std::function<void(int)>& ended) const;

  pid_t owner_ = 0;
  Fd stop_;  // eventfd
  std::jthread thread_;
};

}  // namespace xoe::bootstrap

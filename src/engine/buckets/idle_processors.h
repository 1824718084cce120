// Whether the processors of this rank have time for more.
#pragma once

#include <sched.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace xoe::engine {

// Not thread-safe.
class IdleProcessors {
 public:
  using Clock = std::chrono::steady_clock;

  // The processors that this process may use.
  IdleProcessors();
  // `root` replaces "/" in tests.
  IdleProcessors(const cpu_set_t& cpus, std::string root) : cpus_(cpus), root_(std::move(root)) {}

  // True: they were idle for at least half of their time lately, and not for less than a quarter since. Looks at most
  // once a second; false until there are two looks, and where the kernel does not tell.
  bool mostly(Clock::time_point now = Clock::now());

 private:
  cpu_set_t cpus_{};
  std::string root_;
  Clock::time_point next_look_{};
  std::uint64_t idle_ = 0, all_ = 0;  // ticks
  bool mostly_ = false;
};

}  // namespace xoe::engine

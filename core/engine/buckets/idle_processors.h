// Whether there is processor time to spare while this rank's program computes.
#pragma once

#include <sched.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace xoe::engine {

// Not thread-safe.
class IdleProcessors {
 public:
  using Clock = std::chrono::steady_clock;

  // The processors that this process may use.
  IdleProcessors();
  // For tests: `root` replaces "/"; `used`: processor seconds of this process.
  IdleProcessors(const cpu_set_t& cpus, std::string root, std::function<double()> used)
      : cpus_(cpus), root_(std::move(root)), used_(std::move(used)) {}

  // True: lately the processors were idle for at least half of their time, or this process used less than half of one;
  // and since then not less than a quarter, or more than three quarters. Looks at most once a second; false until there
  // are two looks.
  bool mostly(Clock::time_point now = Clock::now());

 private:
  cpu_set_t cpus_{};
  std::string root_;
  std::function<double()> used_;
  struct Look {
    Clock::time_point at{};
    std::uint64_t idle = 0, all = 0;  // ticks
    double used = 0;                  // seconds
  };
  Look look(Clock::time_point now) const;

  Look last_;
  bool mostly_ = false;
};

}  // namespace xoe::engine

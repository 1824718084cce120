// Notices that a collective over several hosts takes long, while the thread that runs it waits in a library.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "core/backend/collective.h"
#include "core/base/stall_timer.h"

namespace xoe::hierarchical {

class Watchdog {
 public:
  struct Stall {
    StallTimer::Action action = StallTimer::Action::kNothing;
    std::uint64_t number = 0;
    std::string title = {};
    std::chrono::nanoseconds waited{0};
  };
  // Both are called by the watchdog's thread. report: of a warning or the limit. used: as StallTimer's, of the
  // collective with this number.
  using Report = std::function<void(const Stall& stall)>;
  using Used = std::function<CpuUse(std::uint64_t number)>;

  Watchdog(const WaitLimits& limits, Report report, Used used);
  ~Watchdog() { stop(); }

  // Waits for the thread; no call is in progress afterwards.
  void stop();

  // Around each collective, by the thread that runs it.
  void begin(const Collective& collective, std::uint64_t number);
  void end();
  // Waits; false when it is stopped meanwhile.
  bool pause(std::chrono::nanoseconds time);

 private:
  using Clock = std::chrono::steady_clock;
  struct Wait {
    CollectiveKind kind = CollectiveKind::kBarrier;
    std::string name = {};
    std::uint64_t number = 0;
    Clock::time_point began = {};
  };
  void run();

  const WaitLimits limits_;
  const Report report_;
  const Used used_;
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stops_ = false;
  std::optional<Wait> wait_;
  std::jthread thread_;  // last: it uses the members above
};

}  // namespace xoe::hierarchical

#include "core/backend/hierarchical/watchdog.h"

#include <algorithm>
#include <utility>

namespace xoe::hierarchical {

Watchdog::Watchdog(const WaitLimits& limits, Report report, Used used)
    : limits_(limits), report_(std::move(report)), used_(std::move(used)), thread_([this] { run(); }) {}

void Watchdog::stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  stopping_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::begin(const Collective& collective, std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  wait_ = {
      .kind = collective.kind, .name = std::string(collective.options.name), .number = number, .began = Clock::now()};
}

void Watchdog::end() {
  const std::lock_guard lock(mutex_);
  wait_.reset();
}

bool Watchdog::pause(std::chrono::nanoseconds time) {
  std::unique_lock lock(mutex_);
  return !stopping_.wait_for(lock, time, [this] { return stops_; });
}

// begin() does not wake the thread, which never sleeps for longer than until a collective that begins now is due.
void Watchdog::run() {
  constexpr std::chrono::hours kLongestSleep(1);  // without a warning and a limit
  const auto first = std::min<std::chrono::nanoseconds>(StallTimer().next(limits_), kLongestSleep);
  StallTimer timer;
  std::uint64_t watched = 0;
  for (auto sleep = first; pause(sleep);) {
    std::optional<Wait> wait;
    {
      const std::lock_guard lock(mutex_);
      wait = wait_;
    }
    sleep = first;
    if (!wait) continue;
    if (wait->number != std::exchange(watched, wait->number)) timer = {};
    const auto age = std::chrono::nanoseconds(Clock::now() - wait->began);
    const auto action = timer.check(limits_, age, [&] { return used_(wait->number); });
    if (action != StallTimer::Action::kNothing) {
      const Collective titled{.kind = wait->kind, .options = {.name = wait->name}};
      report_({.action = action, .number = wait->number, .title = title_of(titled, wait->number), .waited = age});
    }
    const auto next = timer.next(limits_) - std::chrono::nanoseconds(Clock::now() - wait->began);
    sleep = std::clamp<std::chrono::nanoseconds>(next, std::chrono::milliseconds(1), first);
  }
}

}  // namespace xoe::hierarchical

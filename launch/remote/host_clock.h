// Another host's steady clock, seen from this one.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace xoe::remote {

// Of the messages that the other host stamps, the quickest one tells most. Old ones are forgotten, because clocks
// drift.
class HostClock {
 public:
  using Clock = std::chrono::steady_clock;

  static std::chrono::nanoseconds now() { return Clock::now().time_since_epoch(); }

  // A message that was stamped `there` arrived.
  void observe(std::chrono::nanoseconds there, Clock::time_point arrived) {
    if (arrived - began_ >= kWindow) {
      previous_ = std::exchange(current_, Clock::duration::max());
      began_ = arrived;
    }
    current_ = std::min(current_, arrived.time_since_epoch() - there);
  }
  // When that clock showed `there`: too late by the way of the quickest message at most. After observe().
  Clock::time_point here(std::chrono::nanoseconds there) const {
    return Clock::time_point(there + std::min(current_, previous_));
  }

 private:
  static constexpr auto kWindow = std::chrono::seconds(10);

  Clock::time_point began_ = {};
  Clock::duration current_ = Clock::duration::max();  // the smallest difference since began_
  Clock::duration previous_ = Clock::duration::max();
};

}  // namespace xoe::remote

#include "base/stall_timer.h"

#include <algorithm>

namespace xoe {
namespace {

using Time = std::chrono::nanoseconds;

// A rank that uses less than a hundredth of a processor over a tenth of the limit waits or is stopped. What other hosts
// tell may be late, so a short limit has longer windows.
Time window_of(const WaitLimits& limits) {
  return std::max(limits.limit / 10, std::min<Time>(std::chrono::seconds(1), limits.limit / 2));
}
constexpr int kLeastShare = 100;

Time next_warning(const WaitLimits& limits, const std::optional<Time>& last) {
  return last ? 2 * *last + limits.warning : limits.warning;
}

}  // namespace

StallTimer::Due StallTimer::check(const WaitLimits& limits, Time age, const std::function<Time()>& used) {
  if (limits.limit.count() > 0 && limit_reached(limits, age, used)) return Due::kLimit;
  if (limits.warning.count() <= 0 || age < next_warning(limits, warned_at_)) return Due::kNothing;
  warned_at_ = age;
  return Due::kWarning;
}

bool StallTimer::limit_reached(const WaitLimits& limits, Time age, const std::function<Time()>& used) {
  if (!limits.spares_computing) return age >= limits.limit;
  const Time window = window_of(limits);
  if (age < (measured_at_ ? *measured_at_ : limits.limit - 2 * window) + (measured_at_ ? window : Time{})) return false;
  const Time now_used = used();
  const bool idle = measured_at_ && now_used - used_ < (age - *measured_at_) / kLeastShare;
  measured_at_ = age;
  used_ = now_used;
  return idle && age >= limits.limit;
}

Time StallTimer::next(const WaitLimits& limits) const {
  Time next = Time::max();
  if (limits.warning.count() > 0) next = next_warning(limits, warned_at_);
  if (limits.limit.count() <= 0) return next;
  const Time window = window_of(limits);
  const Time check = !limits.spares_computing ? limits.limit
                     : measured_at_           ? *measured_at_ + window
                                              : limits.limit - 2 * window;
  return std::min(next, check);
}

}  // namespace xoe

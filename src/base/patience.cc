#include "base/patience.h"

#include <algorithm>

namespace xoe {
namespace {

using Time = std::chrono::nanoseconds;

// A rank that uses less than a hundredth of a processor over a tenth of the limit waits or is stopped.
Time window_of(const WaitLimits& limits) { return limits.limit / 10; }
constexpr int kLeastShare = 100;

Time next_warning(const WaitLimits& limits, const std::optional<Time>& last) {
  return last ? 2 * *last + limits.warning : limits.warning;
}

}  // namespace

Patience::Due Patience::check(const WaitLimits& limits, Time age, const std::function<Time()>& used) {
  if (limits.limit.count() > 0 && gives_up(limits, age, used)) return Due::kGivingUp;
  if (limits.warning.count() <= 0 || age < next_warning(limits, warned_at_)) return Due::kNothing;
  warned_at_ = age;
  return Due::kWarning;
}

bool Patience::gives_up(const WaitLimits& limits, Time age, const std::function<Time()>& used) {
  if (!limits.spares_workers) return age >= limits.limit;
  const Time window = window_of(limits);
  if (age < (measured_at_ ? *measured_at_ : limits.limit - 2 * window) + (measured_at_ ? window : Time{})) return false;
  const Time now_used = used();
  const bool idle = measured_at_ && now_used - used_ < (age - *measured_at_) / kLeastShare;
  measured_at_ = age;
  used_ = now_used;
  return idle && age >= limits.limit;
}

Time Patience::next(const WaitLimits& limits) const {
  Time next = Time::max();
  if (limits.warning.count() > 0) next = next_warning(limits, warned_at_);
  if (limits.limit.count() <= 0) return next;
  const Time window = window_of(limits);
  const Time check = !limits.spares_workers ? limits.limit
                     : measured_at_         ? *measured_at_ + window
                                            : limits.limit - 2 * window;
  return std::min(next, check);
}

}  // namespace xoe

#include "core/base/stall_timer.h"

#include <algorithm>

namespace xoe {
namespace {

using Time = std::chrono::nanoseconds;

// A rank that uses less than a hundredth of a processor over a tenth of the limit waits or is stopped. A short limit
// has longer windows, since other hosts need time to answer.
Time window_of(const WaitLimits& limits) {
  return std::max(limits.limit / 10, std::min<Time>(std::chrono::seconds(1), limits.limit / 2));
}
constexpr int kLeastShare = 100;

Time next_warning(const WaitLimits& limits, const std::optional<Time>& last) {
  return last ? 2 * *last + limits.warning : limits.warning;
}

}  // namespace

StallTimer::Action StallTimer::check(const WaitLimits& limits, Time age, const Used& used) {
  if (limits.limit.count() > 0 && limit_reached(limits, age, used)) return Action::kLimit;
  if (limits.warning.count() <= 0 || age < next_warning(limits, warned_at_)) return Action::kNothing;
  warned_at_ = age;
  return Action::kWarning;
}

bool StallTimer::limit_reached(const WaitLimits& limits, Time age, const Used& used) {
  if (!limits.spares_computing) return age >= limits.limit;
  const Time window = window_of(limits);
  if (age < (checked_at_ ? *checked_at_ + window : limits.limit - 2 * window)) return false;
  if (!checked_at_) news_at_ = age;
  checked_at_ = age;
  const CpuUse now = used();
  // Between these two points in time all of them are seen.
  if (now.oldest() < (last_ ? last_->newest() + window / 2 : CpuUse::Time(Time(1)))) {
    // Another host has not answered. It is busy, or lost, which others find out: not for good, for they may not look.
    return age >= limits.limit && age - news_at_ >= limits.limit;
  }
  // Less than before: some of those that were late are not late any more.
  const bool idle = last_ && now.used() >= last_->used() &&
                    now.used() - last_->used() < (now.oldest() - last_->newest()) / kLeastShare;
  news_at_ = age;
  last_ = now;
  return idle && age >= limits.limit;
}

Time StallTimer::next(const WaitLimits& limits) const {
  Time next = Time::max();
  if (limits.warning.count() > 0) next = next_warning(limits, warned_at_);
  if (limits.limit.count() <= 0) return next;
  const Time window = window_of(limits);
  const Time check = !limits.spares_computing ? limits.limit
                     : checked_at_            ? *checked_at_ + window
                                              : limits.limit - 2 * window;
  return std::min(next, check);
}

}  // namespace xoe

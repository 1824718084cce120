#include "pool/core/wall_clock.h"

#include <ctime>
#include <utility>

namespace xoe::pool {

WallClock::Reading WallClock::machine() {
  timespec steady = {};
  ::clock_gettime(CLOCK_BOOTTIME, &steady);
  const auto passed = std::chrono::seconds(steady.tv_sec) + std::chrono::nanoseconds(steady.tv_nsec);
  return {system_now(), std::chrono::duration_cast<Span>(passed)};
}

WallClock::WallClock(Source source, std::optional<Span> offset) : source_(std::move(source)) {
  const Reading first = source_();
  offset_ = offset.value_or(first.wall.time_since_epoch() - first.steady);
}

Time WallClock::now() {
  const std::lock_guard lock(mutex_);
  const Reading read = source_();
  const Span by = read.wall.time_since_epoch() - read.steady - offset_;
  if (std::chrono::abs(by) <= kSlack) {
    if (jump_ != Span(0)) news_ = ClockJump{.by = jump_, .over = true};
    jump_ = Span(0);
    offset_ += by;
  } else if (jump_ == Span(0) || std::chrono::abs(by - jump_) > kSlack) {
    jump_ = by;
    since_ = read.steady;
    news_ = ClockJump{.by = by};
  } else if (read.steady - since_ >= kAcceptAfter) {
    jump_ = Span(0);
    offset_ += by;
    news_ = ClockJump{.by = by, .accepted = true};
  }
  return Time(read.steady + offset_);
}

std::optional<Span> WallClock::offset() {
  const std::lock_guard lock(mutex_);
  if (news_ && news_->accepted) return std::nullopt;
  return offset_;
}

std::optional<ClockJump> WallClock::news() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, std::nullopt);
}

}  // namespace xoe::pool

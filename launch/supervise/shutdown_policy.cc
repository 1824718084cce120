#include "launch/supervise/shutdown_policy.h"

#include <algorithm>

namespace xoe::launch {
namespace {

// Background processes of a rank often end by themselves when it does.
constexpr auto kLeftoverTimeout = std::chrono::milliseconds(200);

}  // namespace

void ShutdownPolicy::begin(Cause cause, Clock::time_point now, std::chrono::nanoseconds delay) {
  if (cause_ == Cause::kNone) cause_ = cause;
  terminate_at_ = std::min(terminate_at_.value_or(Clock::time_point::max()), now + delay);
}

void ShutdownPolicy::withdraw() {
  if (terminated_) return;
  cause_ = Cause::kNone;
  terminate_at_.reset();
}

void ShutdownPolicy::leftovers(Clock::time_point now) {
  limit_.reset();
  others_until_.reset();
  terminate_at_ = std::min(terminate_at_.value_or(Clock::time_point::max()), now + kLeftoverTimeout);
}

ShutdownPolicy::Step ShutdownPolicy::next_step(Clock::time_point now) {
  if (killed_) return Step::kNothing;
  if (limit_ && now >= *limit_) begin(Cause::kTimeout, now);
  if (others_until_ && now >= *others_until_) begin(Cause::kSignalLimit, now);
  if (kill_at_ && now >= *kill_at_) {
    killed_ = true;
    return Step::kKill;
  }
  if (terminate_at_ && now >= *terminate_at_ && !terminated_) {
    terminated_ = true;
    kill_at_ = std::min(kill_at_.value_or(Clock::time_point::max()), now + grace_);
    return Step::kTerminate;
  }
  return Step::kNothing;
}

std::optional<ShutdownPolicy::Clock::time_point> ShutdownPolicy::next() const {
  if (killed_) return std::nullopt;
  auto first = Clock::time_point::max();
  if (!terminated_)
    for (const auto& limit : {limit_, others_until_})
      if (limit) first = std::min(first, *limit);
  if (terminate_at_ && !terminated_) first = std::min(first, *terminate_at_);
  if (kill_at_) first = std::min(first, *kill_at_);
  return first == Clock::time_point::max() ? std::nullopt : std::optional(first);
}

void ShutdownPolicy::shift(Clock::duration pause) {
  for (auto* time : {&limit_, &others_until_, &terminate_at_, &kill_at_})
    if (*time) **time += pause;
}

}  // namespace xoe::launch

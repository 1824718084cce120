// How and when a job is ended: decisions by the clock, without any process.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "launch/output/job_outcome.h"

namespace xoe::launch {

class ShutdownPolicy {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Step : std::uint8_t { kNothing, kTerminate, kKill };

  ShutdownPolicy(Clock::time_point now, std::optional<std::chrono::nanoseconds> timeout, std::chrono::nanoseconds grace)
      : grace_(grace), limit_(timeout ? std::optional(now + *timeout) : std::nullopt) {}

  // The first cause counts; after a delay, the shortest of all, the other ranks are asked to end.
  void begin(Cause cause, Clock::time_point now, std::chrono::nanoseconds delay = {});
  // The cause was none, if nothing was done about it yet.
  void withdraw();
  // All ranks have ended, but not all processes that they started: a moment later those are asked to end too.
  void leftovers(Clock::time_point now);
  // Some ranks have ended because of a signal: the others have until then. The first call counts.
  void limit_others(Clock::time_point at) { others_until_ = others_until_.value_or(at); }
  void kill_at_once(Clock::time_point now) { kill_at_ = now; }
  // The step to take now; call it until it returns kNothing.
  Step next_step(Clock::time_point now);
  // When there will be a step to take.
  std::optional<Clock::time_point> next() const;
  // The launcher and its job were stopped for this long.
  void shift(Clock::duration pause);

  Cause cause() const noexcept { return cause_; }
  bool killed() const noexcept { return killed_; }

 private:
  std::chrono::nanoseconds grace_;
  std::optional<Clock::time_point> limit_;
  std::optional<Clock::time_point> others_until_ = {};
  std::optional<Clock::time_point> terminate_at_ = {};
  std::optional<Clock::time_point> kill_at_ = {};
  Cause cause_ = Cause::kNone;
  bool terminated_ = false;
  bool killed_ = false;
};

}  // namespace xoe::launch

// How and when a job comes to its end: a clock-driven decision without any process in it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace xoe::launch {

enum class Cause : std::uint8_t {
  kNone,          // all ranks ended with 0
  kRankFailed,    // a rank ended with another code or by a signal
  kStartFailed,   // a rank could not be started
  kTimeout,       // the job's time limit
  kOutputClosed,  // nobody reads the launcher's stdout any more
  kGuardianLost,  // somebody killed the guardian
  kHostLost,      // a host or its agent went away
};

class Ending {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Step : std::uint8_t { kNothing, kTerminate, kKill };

  Ending(Clock::time_point now, std::optional<std::chrono::nanoseconds> timeout, std::chrono::nanoseconds grace)
      : grace_(grace), limit_(timeout ? std::optional(now + *timeout) : std::nullopt) {}

  // The first cause counts; the rest of the job is asked to end.
  void begin(Cause cause, Clock::time_point now);
  // All ranks have ended, but processes that they started have not: a moment later those are asked to end too.
  void leftovers(Clock::time_point now);
  void kill_at_once(Clock::time_point now) { kill_at_ = now; }
  // What is due now; call it again until it says kNothing.
  Step due(Clock::time_point now);
  // When something will be due next.
  std::optional<Clock::time_point> next() const;
  // The launcher was stopped for this long, and its job with it.
  void shift(Clock::duration pause);

  Cause cause() const noexcept { return cause_; }
  bool killed() const noexcept { return killed_; }

 private:
  std::chrono::nanoseconds grace_;
  std::optional<Clock::time_point> limit_;
  std::optional<Clock::time_point> terminate_at_ = {};
  std::optional<Clock::time_point> kill_at_ = {};
  Cause cause_ = Cause::kNone;
  bool terminated_ = false;
  bool killed_ = false;
};

}  // namespace xoe::launch

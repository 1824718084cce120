// The server's clock: the machine's, as far as that runs evenly. A jump of it would end every lease at once.
#pragma once

#include <functional>
#include <mutex>
#include <optional>

#include "pool/model/time.h"

namespace xoe::pool {

// The machine's clock was set: it differs by `by` from what has passed since.
struct ClockJump {
  Span by{0};
  bool accepted = false;  // the pool's clock follows from now on, and what is under way is moved by as much
  bool over = false;      // the machine's clock is right again
};

// Differences of up to kSlack are those of a clock that is kept right, and are followed. A jump is told, not obeyed;
// one that lasts for kAcceptAfter is accepted as a correction. Any thread.
class WallClock {
 public:
  static constexpr Span kSlack = std::chrono::seconds(30);
  static constexpr Span kAcceptAfter = std::chrono::minutes(10);

  struct Reading {
    Time wall;
    Span steady;  // since a moment that never changes, the machine's sleep included
  };
  using Source = std::function<Reading()>;

  // offset: of the wall's time from the steady one, as a server knew it that ran before on this machine: a clock that
  // was set since then has jumped. nullopt: the clock is right as it is.
  explicit WallClock(Source source = machine, std::optional<Span> offset = std::nullopt);
  static Reading machine();

  Time now();
  // A jump, or its end, that is to be told. Each is given once.
  std::optional<ClockJump> news();
  // A jump counts once it was accepted. nullopt: one was just accepted, and news() has not told of it yet.
  std::optional<Span> offset();

 private:
  Source source_;
  std::mutex mutex_;
  Span offset_{0};  // of the wall's time from the steady one
  Span jump_{0};
  Span since_{0};  // when that was first seen; steady
  std::optional<ClockJump> news_;
};

}  // namespace xoe::pool

// Where a stage's time goes, found without looking at the clock for each element.
#pragma once

#include <atomic>
#include <cstdint>

#include "xoe/data/report.h"

namespace xoe::data {

// The call that a thread is in: one that is timed, with all that it calls, or one that is not.
struct Trace {
  enum class Within : std::uint8_t { kNothing, kUntimed, kTimed };
  Within within = Within::kNothing;
  std::int64_t weight = 1;  // calls that the outermost one stands for
  std::int64_t inner = 0;   // nanoseconds that the innermost one spent in the calls that it made
  std::int64_t timed = 0;   // calls within the outermost one, itself included
  std::int64_t since = 0;   // nanoseconds of the clock when the calls began that it stands for
};
inline constinit thread_local Trace trace;

// Times calls of a stage, and the share that those spend in calls of the stages before it. Of the outermost stage on
// each thread calls are drawn, so rarely that looking at the clock takes 0.2 % of the time, and each stands for those
// since the one before it; calls that take long are timed each. All calls within a timed call are timed as well, so the
// parts add up to the whole. Thread safety: call(), count() and reset() by one thread at a time; report() by any.
class Meter {
 public:
  // f(), which does not throw.
  template <class F>
  auto call(F&& f) -> decltype(f()) {
    if (trace.within == Trace::Within::kUntimed) return f();
    if (trace.within == Trace::Within::kNothing && --until_ > 0) return untimed(f);
    return timed(f);
  }
  // Another element was given.
  void count() noexcept { add(elements_, 1); }
  void count_bytes(std::int64_t bytes) noexcept { add(bytes_, bytes); }

  enum class Part : std::uint8_t {
    kAll,    // elements and times; `held` is the time of whole calls
    kTimes,  // `seconds` and `waited` alone: of a thread that works ahead
  };
  void report(StageReport& stage, Part part = Part::kAll) const;
  void reset() noexcept;

 private:
  struct Start {
    bool outermost;
    std::int64_t inner;  // of the call that this one is in
    std::int64_t at;
  };

  // One return in each, so that f() makes its answer in place.
  template <class F>
  auto untimed(F& f) -> decltype(f()) {
    trace.within = Trace::Within::kUntimed;
    auto made = f();
    trace.within = Trace::Within::kNothing;
    return made;
  }
  template <class F>
  [[gnu::noinline]] auto timed(F& f) -> decltype(f()) {
    const Start start = begin();
    auto made = f();
    end(start);
    return made;
  }
  Start begin() noexcept;
  void end(const Start& start) noexcept;
  void plan() noexcept;
  std::int64_t draw(std::int64_t end) noexcept;

  // One thread writes at a time; others may read at any time.
  static void add(std::atomic<std::int64_t>& sum, std::int64_t value) noexcept {
    sum.store(sum.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
  }

  std::int64_t until_ = 1;  // the next timed call
  std::int64_t gap_ = 1;    // what it will stand for
  std::int64_t calls_ = 0;  // that the timed ones stand for
  std::int64_t timed_ = 0;  // nanoseconds of the clock behind the last timed one
  std::uint32_t random_ = 1;
  std::atomic<std::int64_t> elements_ = 0;
  std::atomic<std::int64_t> bytes_ = 0;
  std::atomic<std::int64_t> own_ = 0;      // nanoseconds, weighted
  std::atomic<std::int64_t> inner_ = 0;    // the same in the calls that it made
  std::atomic<std::int64_t> started_ = 0;  // nanoseconds of the clock at the first call; 0: none yet
};

}  // namespace xoe::data

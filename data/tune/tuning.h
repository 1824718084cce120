// Threads and depth that follow the consumer, for the stages that work ahead.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "data/tune/cpu_ledger.h"
#include "data/tune/tuner.h"

namespace xoe::data {

// A thread count of an option: itself, or what kAutoThreads may use at most where `processes` of this host share it.
int most_threads(int threads, int processes);

// Bytes that may be ahead: `budget`, or the default where it is 0.
std::size_t memory_budget(std::size_t budget) noexcept;

// Elements between looks at the clock.
inline constexpr std::int64_t kTuneEvery = 16;

// The seconds that f() takes, by the clock.
template <class F>
double seconds_of(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A Tuner with a clock: it is asked at each element, and decides a few times a second. Thread safety: one thread at a
// time.
class Tuning {
 public:
  // Since the start, or the last restart().
  struct Totals {
    double waited = 0;  // the consumer's seconds without anything to take
    double idle = 0;    // seconds of threads that had to wait for the consumer, added up
    double input = 0;   // and of those in the stage that feeds them
    std::int64_t taken = 0;
  };

  // `account` is of the stage's threads; null: they use next to nothing.
  explicit Tuning(const TunerLimits& limits, const CpuAccount* account = nullptr);

  // Enough time went by for another decision.
  bool window_ended() const;
  // True when threads or depth changed.
  bool step(const Totals& now);
  // Counts from 0 again, with the setting that was found; the account is open.
  void restart();

  TunerSetting setting() const noexcept { return tuner_.setting(); }
  const std::string& reason() const noexcept { return tuner_.reason(); }  // of the last change; empty at first

 private:
  using Clock = std::chrono::steady_clock;

  Tuner tuner_;
  const CpuAccount* account_;
  Clock::time_point start_;  // of this window
  Totals then_;              // at its start
  CpuLedger::Use used_then_;
};

}  // namespace xoe::data

// Threads and depth that follow the consumer, for the stages that work ahead.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace xoe::data {

class Tuner;

namespace detail {

// A thread count of an option: itself, or what kAutoThreads may use at most where `processes` of this host share it.
int most_threads(int threads, int processes);

// What there may be ahead: `budget`, or, where it is 0, as much as there is by default.
std::size_t memory_budget(std::size_t budget) noexcept;

// What f() takes, by the clock.
template <class F>
double seconds_of(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A Tuner (src/data/tune) with a clock: it is asked at each element, and decides a few times a second. Thread safety:
// one thread at a time.
class Tuning {
 public:
  struct Limits {
    int most_threads = 1;  // starts with one
    std::size_t least_depth = 2;
    std::size_t most_depth = 2;
  };
  // Since the start, or the last restart().
  struct Totals {
    double waited = 0;  // the consumer's seconds without anything to take
    double idle = 0;    // seconds of threads that had to wait for the consumer, added up
    std::int64_t taken = 0;
  };

  explicit Tuning(const Limits& limits);
  ~Tuning();
  Tuning(const Tuning&) = delete;
  Tuning& operator=(const Tuning&) = delete;

  // Enough time went by for another decision.
  bool due() const;
  // True when threads or depth changed.
  bool step(const Totals& now);
  // Counts from 0 again, with the setting that was found.
  void restart();

  int threads() const;
  std::size_t depth() const;
  const std::string& reason() const;  // of the last change, for people; empty at first

 private:
  using Clock = std::chrono::steady_clock;

  std::unique_ptr<Tuner> tuner_;
  Clock::time_point start_;  // of this window
  Totals then_;              // at its start
};

}  // namespace detail
}  // namespace xoe::data

// Threads and depth that follow the consumer, for the stages that work ahead.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace xoe::data {

class Tuner;

namespace detail {

class CpuAccount;

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
    int least_threads = 1;
    int most_threads = 1;
    int cpus = 0;  // that such stages of the process may use together; 0: any number
    std::size_t least_depth = 2;
    std::size_t most_depth = 2;
    std::string_view depth_means = "ahead";  // in reasons
  };
  // Since the start, or the last restart().
  struct Totals {
    double waited = 0;  // the consumer's seconds without anything to take
    double idle = 0;    // seconds of threads that had to wait for the consumer, added up
    double input = 0;   // and of those in what feeds them
    std::int64_t taken = 0;
  };

  // `account` is of the threads that it is about; null: they use next to nothing.
  explicit Tuning(const Limits& limits, const CpuAccount* account = nullptr);
  ~Tuning();
  Tuning(const Tuning&) = delete;
  Tuning& operator=(const Tuning&) = delete;

  // Enough time went by for another decision.
  bool due() const;
  // True when threads or depth changed.
  bool step(const Totals& now);
  // Counts from 0 again, with the setting that was found; the account is open.
  void restart();

  int threads() const;
  std::size_t depth() const;
  const std::string& reason() const;  // of the last change, for people; empty at first

 private:
  using Clock = std::chrono::steady_clock;
  struct Used {
    double mine = 0;  // CPU seconds
    double others = 0;
  };

  std::unique_ptr<Tuner> tuner_;
  const CpuAccount* account_;
  Clock::time_point start_;  // of this window
  Totals then_;              // at its start
  Used used_then_;
};

}  // namespace detail
}  // namespace xoe::data

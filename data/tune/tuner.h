// How many threads work and how far ahead, decided from what was seen.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace xoe::data {

struct TunerSetting {
  int threads = 1;
  std::size_t depth = 2;  // jobs in work or waiting

  friend bool operator==(const TunerSetting&, const TunerSetting&) = default;
};

// What happened while one setting was in force.
struct TunerWindow {
  double seconds = 0;
  double waited = 0;          // the consumer's seconds without anything to take
  double idle = 0;            // seconds of threads that had to wait for the consumer, added up
  double jobs = 0;            // taken
  double input = 0;           // seconds of threads in what feeds them, added up
  double used = 0;            // CPU seconds of its threads
  double used_by_others = 0;  // and of those of the other stages that it shares CPUs with
};

struct TunerLimits {
  TunerSetting least = {};                 // to start with, and never below
  TunerSetting most = {};                  // goes before
  int cpus = 0;                            // that all stages of the process may use together; 0: any number
  std::string_view depth_means = "ahead";  // in reasons
};

// A walk in single steps with a memory: a step that brought nothing is taken back and not tried again for a time that
// doubles, so it comes to rest. Pure: the same windows give the same settings.
class Tuner {
 public:
  explicit Tuner(const TunerLimits& limits);

  // The setting for the next window.
  TunerSetting step(const TunerWindow& window);

  TunerSetting setting() const noexcept { return now_; }
  // Why the setting was last changed, for people; empty at first.
  const std::string& reason() const noexcept { return reason_; }

 private:
  int affordable(const TunerWindow& window) const;
  bool pay_back(const TunerWindow& window);
  void judge_trial(const TunerWindow& window, double rate);
  void grow(const TunerWindow& window, double rate);
  void shrink(const TunerWindow& window);
  void change(TunerSetting to, std::string why);
  void wait(int& windows);

  TunerSetting most_;
  int cpus_;
  std::string_view depth_means_;
  TunerSetting now_;
  int least_threads_;  // depth only goes back to what it was
  std::string reason_;

  int trial_ = 0;  // windows with a larger setting that is not judged yet
  TunerSetting before_;
  double rate_before_ = 0;
  int hold_ = 0;           // windows without a try to grow
  int next_hold_ = 4;      // doubles with each try that brought nothing
  int next_pay_hold_ = 4;  // with each thread that went because the CPUs were too few
  int calm_ = 0;           // windows in a row with a thread to spare
};

}  // namespace xoe::data

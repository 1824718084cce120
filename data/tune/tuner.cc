#include "data/tune/tuner.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/base/text.h"

namespace xoe::data {
namespace {

constexpr double kStarved = 0.02;     // share of its time that a consumer waits before something is done
constexpr double kFedBelow = 0.005;   // and below which it counts as fed
constexpr double kThreadsBusy = 0.1;  // share of their time that threads may be idle and still be what is short
constexpr double kSpare = 1.3;        // threads' worth of idling from which one can go
constexpr double kWorthIt = 1.02;     // what a step must bring
constexpr double kRounding = 0.5;     // CPUs: whole threads seldom come to what there is exactly
constexpr double kOverdrawn = 0.75;   // CPUs above what there is from which a thread goes
constexpr double kFedLate = 0.05;     // share of the time spent in the input from which that may be what is short
constexpr int kPatience = 3;          // windows in which the input may catch up
constexpr int kCalmWindows = 4;
constexpr int kLongestHold = 256;

// CPUs that were in use; a clock that ticks late shows no more than there are threads.
double in_use(const TunerWindow& window, const TunerSetting& setting) {
  return std::min(window.used / window.seconds, static_cast<double>(setting.threads)) +
         window.used_by_others / window.seconds;
}

}  // namespace

Tuner::Tuner(const TunerLimits& limits)
    : most_{std::max(limits.most.threads, 1), std::max<std::size_t>(limits.most.depth, 1)},
      cpus_(limits.cpus),
      depth_means_(limits.depth_means),
      now_{std::clamp(limits.least.threads, 1, most_.threads),
           std::clamp<std::size_t>(limits.least.depth, 1, most_.depth)},
      least_threads_(now_.threads) {}

void Tuner::change(TunerSetting to, std::string why) {
  if (to == now_) return;
  reason_ = fmt::format("{}, {} {} -> {}, {} {}: {}", counted(now_.threads, "thread"), now_.depth, depth_means_,
                        counted(to.threads, "thread"), to.depth, depth_means_, why);
  now_ = to;
}

TunerSetting Tuner::step(const TunerWindow& window) {
  if (window.seconds <= 0 || window.jobs <= 0) return now_;
  const double rate = window.jobs / window.seconds;
  if (trial_ > 0) judge_trial(window, rate);
  if (pay_back(window)) return now_;
  if (trial_ > 0) return now_;
  const double starved = window.waited / window.seconds;
  if (starved > kStarved) {
    calm_ = 0;
    grow(window, rate);
  } else if (starved < kFedBelow) {
    shrink(window);
  } else {
    calm_ = 0;
  }
  return now_;
}

// Threads that the CPUs are enough for, when all stages work faster alike, though never faster than the consumer takes.
int Tuner::affordable(const TunerWindow& window) const {
  const double faster = (cpus_ + kRounding) / std::max(in_use(window, now_), 1e-9);
  const bool fits_all = faster * (window.seconds - window.waited) >= window.seconds;
  if (cpus_ == 0 || fits_all) return most_.threads;
  return static_cast<int>(std::min<double>(now_.threads * faster, most_.threads));
}

// True when a thread went because the stages together use more than there is.
bool Tuner::pay_back(const TunerWindow& window) {
  const double used = in_use(window, now_);
  if (cpus_ == 0 || now_.threads == least_threads_ || used < cpus_ + kOverdrawn) return false;
  change({now_.threads - 1, now_.depth},
         fmt::format("all stages together used {:.1f} CPUs, and {} were given", used, cpus_));
  wait(next_pay_hold_);
  calm_ = trial_ = 0;
  return true;
}

// The next time twice as long.
void Tuner::wait(int& windows) {
  hold_ = windows;
  windows = std::min(2 * windows, kLongestHold);
}

void Tuner::judge_trial(const TunerWindow& window, double rate) {
  const bool better = rate >= rate_before_ * kWorthIt;
  // Two stages that are equally slow must both grow before anything is faster: what feeds this one sees only now that
  // it is too slow.
  if (!better && trial_ < kPatience && window.input > kFedLate * window.seconds) {
    ++trial_;
    return;
  }
  trial_ = 0;
  if (better) {
    next_hold_ = 4;
    return;
  }
  change(before_, fmt::format("the larger setting brought {:.1f} jobs/s where it was {:.1f}", rate, rate_before_));
  wait(next_hold_);
}

void Tuner::grow(const TunerWindow& window, double rate) {
  if (hold_ > 0) {
    --hold_;
    return;
  }
  TunerSetting larger = now_;
  std::string why = fmt::format("the consumer waited {:.0f} % of its time", 100 * window.waited / window.seconds);
  const double idle = window.idle / (window.seconds * now_.threads);
  const int most_threads = affordable(window);
  if (idle < kThreadsBusy && now_.threads < most_threads) {
    // The estimated number of missing threads; at most as many as there are.
    const double lacking = now_.threads * window.waited / std::max(window.seconds - window.waited, 1e-9);
    larger.threads = std::min({now_.threads + std::max(1, static_cast<int>(lacking)), 2 * now_.threads, most_threads});
    why += " and every thread was busy";
    // Where jobs have one task, each thread works on a job of its own.
    larger.depth = std::min(std::max(larger.depth, static_cast<std::size_t>(larger.threads) + 1), most_.depth);
  } else if (idle >= kThreadsBusy && now_.depth < most_.depth) {
    ++larger.depth;
    why += " though threads were idle: it takes in bursts";
  }
  if (larger == now_) return;
  trial_ = 1;
  before_ = now_;
  rate_before_ = rate;
  change(larger, why);
}

void Tuner::shrink(const TunerWindow& window) {
  if (now_.threads == least_threads_ || window.idle < kSpare * window.seconds) {
    calm_ = 0;
    return;
  }
  if (++calm_ < kCalmWindows) return;
  calm_ = 0;
  change({now_.threads - 1, now_.depth},
         fmt::format("{:.1f} threads' worth of time was spare", window.idle / window.seconds));
}

}  // namespace xoe::data

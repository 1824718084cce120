#include "data/tune/tuner.h"

#include <algorithm>

#include <fmt/format.h>

namespace xoe::data {
namespace {

constexpr double kStarved = 0.02;     // share of its time that a consumer waits before something is done
constexpr double kFed = 0.005;        // and below which it counts as fed
constexpr double kThreadsBusy = 0.1;  // share of their time that threads may be idle and still be what is short
constexpr double kSpare = 1.3;        // threads' worth of idling from which one can go
constexpr double kWorthIt = 1.02;     // what a step must bring
constexpr int kCalmWindows = 4;
constexpr int kLongestHold = 256;

}  // namespace

Tuner::Tuner(TunerSetting least, TunerSetting most)
    : most_{std::max(most.threads, 1), std::max<std::size_t>(most.depth, 1)},
      now_{std::clamp(least.threads, 1, most_.threads), std::clamp<std::size_t>(least.depth, 1, most_.depth)},
      least_threads_(now_.threads) {}

void Tuner::change(TunerSetting to, std::string why) {
  if (to == now_) return;
  reason_ = fmt::format("{} threads, {} ahead -> {} threads, {} ahead: {}", now_.threads, now_.depth, to.threads,
                        to.depth, why);
  now_ = to;
}

TunerSetting Tuner::step(const TunerWindow& window) {
  if (window.seconds <= 0 || window.jobs <= 0) return now_;
  const double rate = window.jobs / window.seconds;
  if (trial_) judge_trial(rate);
  const double starved = window.waited / window.seconds;
  if (starved > kStarved) {
    calm_ = 0;
    grow(window, rate);
  } else if (starved < kFed) {
    shrink(window);
  } else {
    calm_ = 0;
  }
  return now_;
}

void Tuner::judge_trial(double rate) {
  trial_ = false;
  if (rate >= rate_before_ * kWorthIt) {
    next_hold_ = 4;
    return;
  }
  change(before_, fmt::format("the larger setting brought {:.1f} jobs/s where it was {:.1f}", rate, rate_before_));
  hold_ = next_hold_;
  next_hold_ = std::min(2 * next_hold_, kLongestHold);
}

void Tuner::grow(const TunerWindow& window, double rate) {
  if (hold_ > 0) {
    --hold_;
    return;
  }
  TunerSetting larger = now_;
  std::string why = fmt::format("the consumer waited {:.0f} % of its time", 100 * window.waited / window.seconds);
  const double idle = window.idle / (window.seconds * now_.threads);
  if (idle < kThreadsBusy && now_.threads < most_.threads) {
    // What is missing, as far as it can be told; at most twice what there is.
    const double lacking = now_.threads * window.waited / std::max(window.seconds - window.waited, 1e-9);
    larger.threads = std::min({now_.threads + std::max(1, static_cast<int>(lacking)), 2 * now_.threads, most_.threads});
    why += " and every thread was busy";
    // Threads work on a job each when jobs have one piece.
    larger.depth = std::min(std::max(larger.depth, static_cast<std::size_t>(larger.threads) + 1), most_.depth);
  } else if (idle >= kThreadsBusy && now_.depth < most_.depth) {
    ++larger.depth;
    why += " though threads were idle: it takes in bursts";
  }
  if (larger == now_) return;
  trial_ = true;
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

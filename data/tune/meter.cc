#include "data/tune/meter.h"

#include <algorithm>
#include <chrono>

namespace xoe::data {
namespace {

constexpr std::int64_t kClockShare = 500;  // of so much time one goes to looking at the clock
constexpr std::int64_t kLongestGap = 4096;
constexpr double kSecond = 1e9;

std::int64_t now() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Nanoseconds that looking at the clock takes here.
std::int64_t clock_cost() noexcept {
  static const std::int64_t cost = [] {
    std::int64_t least = 1000;
    for (int i = 0; i < 32; ++i) {
      const std::int64_t start = now();
      for (int j = 0; j < 8; ++j) now();
      least = std::min(least, (now() - start) / 9);
    }
    return std::max<std::int64_t>(least, 1);
  }();
  return cost;
}

}  // namespace

Meter::Start Meter::begin() noexcept {
  Start start{.outermost = trace.within == Trace::Within::kNothing, .inner = trace.inner, .at = 0};
  if (start.outermost) {
    trace = {.within = Trace::Within::kTimed, .weight = gap_};
    start.inner = 0;
  }
  trace.inner = 0;
  start.at = now();
  if (start.outermost) trace.since = calls_ == 0 ? start.at : timed_;
  if (started_.load(std::memory_order_relaxed) == 0) started_.store(start.at, std::memory_order_relaxed);
  return start;
}

void Meter::end(const Start& start) noexcept {
  const std::int64_t at = now();
  const std::int64_t took = std::max<std::int64_t>(at - start.at, 1);
  const std::int64_t inner = std::min(trace.inner, took);
  // A call that was interrupted stands for fewer: for as many of its length as fit into the time since the last one.
  const std::int64_t that_fit = std::max<std::int64_t>((at - trace.since) / took, 1);
  const std::int64_t weight = std::min(that_fit, trace.weight);
  add(own_, weight * (took - inner));
  add(inner_, weight * inner);
  // Half of each of two looks at the clock lies outside of what they measure.
  trace.inner = start.inner + took + clock_cost();
  ++trace.timed;
  if (!start.outermost) return;
  timed_ = at;
  plan();
}

// When the outermost stage is timed next: at random, so that no rhythm of its calls (blocks, batches) is met each time.
void Meter::plan() noexcept {
  trace.within = Trace::Within::kNothing;
  calls_ += gap_;
  const std::int64_t all = own_.load(std::memory_order_relaxed) + inner_.load(std::memory_order_relaxed);
  const std::int64_t each = std::max<std::int64_t>(all / calls_, 1);
  const std::int64_t cost = 2 * clock_cost() * trace.timed;  // of timing the call that has ended
  const std::int64_t gap = std::clamp<std::int64_t>(cost * kClockShare / each, 1, kLongestGap);
  gap_ = 1 + draw(2 * gap - 1);  // `gap` on average
  until_ = gap_;
}

// A number from 0 to below `end`, by Numerical Recipes' generator, whose upper bits are good.
std::int64_t Meter::draw(std::int64_t end) noexcept {
  random_ = random_ * 1664525U + 1013904223U;
  return static_cast<std::int64_t>((std::uint64_t{random_} * static_cast<std::uint64_t>(end)) >> 32);
}

void Meter::report(StageReport& stage, Part part) const {
  stage.seconds = static_cast<double>(own_.load(std::memory_order_relaxed)) / kSecond;
  stage.waited = static_cast<double>(inner_.load(std::memory_order_relaxed)) / kSecond;
  if (part == Part::kTimes) return;
  stage.elements = elements_.load(std::memory_order_relaxed);
  stage.bytes = bytes_.load(std::memory_order_relaxed);
  stage.held = stage.seconds + stage.waited;
  const std::int64_t started = started_.load(std::memory_order_relaxed);
  if (started != 0) stage.age = static_cast<double>(now() - started) / kSecond;
}

void Meter::reset() noexcept {
  until_ = gap_ = 1;
  calls_ = 0;
  for (auto* sum : {&elements_, &bytes_, &own_, &inner_, &started_}) sum->store(0, std::memory_order_relaxed);
}

}  // namespace xoe::data

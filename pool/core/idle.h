// Whether a lease is used: a pure function of what was seen of its GPUs.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>

#include "pool/model/state.h"

namespace xoe::pool {

// Of all GPUs of a lease at one moment.
struct IdleSample {
  Time at = {};
  Span stands_for{0};      // the time before `at`; a minute at most
  double utilisation = 0;  // of the busiest of them, per cent
  bool processes = false;  // there is any
  double cpus = 0;         // that the processes use
};

struct IdleAssessment {
  bool idle = false;
  std::string why = {};  // "no process used its GPUs for 15 min"
};

inline constexpr Span kMaxSampleSpan = std::chrono::minutes(1);
inline constexpr int kMostSamples = 1000;  // of a window; what comes between two of them is part of one

// The samples of the last while. The time in which no agent reported is in none of them, so it makes no lease idle.
class IdleWindow {
 public:
  void add(const IdleSample& sample, const IdlePolicy& policy);
  // However fast reports come, there are not many more than kMostSamples.
  std::size_t samples() const { return samples_.size(); }
  // With the clock.
  void move_times(Span by);
  // `begins`: of the lease, which is not idle before it is as old as a window.
  IdleAssessment assess(const IdlePolicy& policy, Time begins, Time now) const;

 private:
  Time known_until(Span window, Time now) const;

  std::deque<IdleSample> samples_;  // the oldest first
};

// The windows of all open leases.
class IdleWatch {
 public:
  // `since`: the time before `now` that the report stands for.
  void observe(const State& state, const HostReport& report, Span since, Time now);
  // Never idle: leases that are exempt, or of a user who is.
  IdleAssessment assess(const State& state, const Lease& lease, Time now) const;
  void forget(std::int64_t lease) {
    windows_.erase(lease);
    fresh_.erase(lease);
  }
  // With the clock, so that what was seen is as old as before.
  void move_times(Span by);
  // Whether it is time to judge the lease again: all once in a second, and each with what was just seen of it. Of a
  // host that reports a moment after others, less would always be known a second after those.
  bool is_due(std::int64_t lease, Time now) const {
    return now < judged_ || now - judged_ >= std::chrono::seconds(1) || fresh_.contains(lease);
  }
  void judged(Time now) {
    if (now < judged_ || now - judged_ >= std::chrono::seconds(1)) judged_ = now;
    fresh_.clear();
  }

 private:
  std::map<std::int64_t, IdleWindow> windows_;
  std::set<std::int64_t> fresh_;  // seen since they were judged
  Time judged_ = {};
};

}  // namespace xoe::pool

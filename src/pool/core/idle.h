// Whether a lease is used: a pure function of what was seen of its GPUs.
#pragma once

#include <deque>
#include <string>

#include "pool/model/state.h"

namespace xoe::pool {

// Of all GPUs of a lease at one moment.
struct IdleSample {
  Time at = {};
  double utilisation = 0;  // of the busiest of them, per cent
  bool processes = false;  // there is any
  double cpus = 0;         // that the processes use
};

struct IdleVerdict {
  bool idle = false;
  std::string why = {};  // "no process used its GPUs for 15 min"
};

// The samples of the last while, the oldest first. A gap between two counts as observed for a minute at most, so that
// the time in which no agent reported never makes a lease idle.
class IdleWindow {
 public:
  void add(const IdleSample& sample, const IdlePolicy& policy);
  IdleVerdict judge(const IdlePolicy& policy, Time now) const;

 private:
  std::deque<IdleSample> samples_;
};

}  // namespace xoe::pool

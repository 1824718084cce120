// A value that changes at moments: a step function of time.
#pragma once

#include <iterator>
#include <map>

#include "pool/model/time.h"

namespace xoe::pool {

template <class Value>
class Steps {
 public:
  using Iterator = typename std::map<Time, Value>::const_iterator;

  // The step that holds at a moment; it lasts until the next one begins.
  Iterator at(Time moment) const { return std::prev(steps_.upper_bound(moment)); }
  Iterator end() const { return steps_.end(); }

  // Applies `change` to the value between two moments.
  template <class Change>
  void change(Time from, Time to, Change&& change) {
    if (from >= to) return;
    const auto last = begin_at(to);
    for (auto step = begin_at(from); step != last; ++step) change(step->second);
  }

 private:
  auto begin_at(Time moment) {
    const auto step = std::prev(steps_.upper_bound(moment));
    return step->first == moment ? step : steps_.emplace_hint(std::next(step), moment, step->second);
  }

  std::map<Time, Value> steps_ = {{Time::min(), Value()}};  // never empty
};

}  // namespace xoe::pool

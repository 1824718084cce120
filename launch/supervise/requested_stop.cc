#include "launch/supervise/requested_stop.h"

#include <algorithm>

namespace xoe::launch {

void RequestedStop::add(const Fault& end) {
  if (end.end->status != 0 && !by_signal_) by_signal_ = end;
  if (std::ranges::find(first_of_host_, end.host, &Fault::host) == first_of_host_.end()) first_of_host_.push_back(end);
}

bool RequestedStop::explain(const Fault& failure) const {
  if (!may_answer(failure)) return false;
  return std::ranges::any_of(first_of_host_, [&](const Fault& left) {
    return left.at <= failure.at + (left.host == failure.host ? std::chrono::nanoseconds() : FirstFault::kUncertainty);
  });
}

std::optional<Fault> RequestedStop::first_failure() const {
  if (by_signal_ || followed_.empty()) return by_signal_;
  return followed_.front();
}

}  // namespace xoe::launch

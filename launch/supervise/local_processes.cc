#include "launch/supervise/local_processes.h"

#include <algorithm>
#include <numeric>

namespace xoe::launch {

std::vector<int> LocalProcesses::slots_of(std::size_t /*host*/) const {
  std::vector<int> all(static_cast<std::size_t>(slots_));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::optional<SupervisorEvent> LocalProcesses::next() {
  const auto event = supervisor_.next();
  if (event && event->kind == SupervisorEvent::Kind::kAllGone) {
    gone_ = true;
    streams_.begin_drain(Clock::now());
  }
  return event;
}

std::vector<RankSample> LocalProcesses::samples(Clock::time_point now) const {
  std::vector<RankSample> samples;
  if (status_)
    for (bootstrap::RankFacts& facts : status_->facts(now)) samples.push_back({.at = now, .facts = std::move(facts)});
  return samples;
}

bool LocalProcesses::output_open(Clock::time_point now) {
  streams_.close_silent(now, kDrainTimeout);
  return streams_.open();
}

void LocalProcesses::add_to(std::vector<pollfd>& polled) {
  // The supervisor's socket stays readable after its end.
  if (!gone_) polled.push_back({.fd = supervisor_.fd(), .events = POLLIN, .revents = 0});
  streams_.add_to(polled);
}

std::optional<LocalProcesses::Clock::time_point> LocalProcesses::next_turn(Clock::time_point now) const {
  auto next = gone_ ? streams_.next_silent(kDrainTimeout) : std::nullopt;
  const auto earlier = [&next](Clock::time_point time) { next = std::min(next.value_or(time), time); };
  if (const auto flush = streams_.next_flush()) earlier(*flush);
  if (streams_.in_background()) earlier(now + kBackgroundTurn);
  return next;
}

}  // namespace xoe::launch

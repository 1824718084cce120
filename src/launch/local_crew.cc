#include "launch/local_crew.h"

#include <unistd.h>

#include <algorithm>

namespace xoe::launch {
namespace {

// When all processes are gone a pipe that is empty but not closed is held by somebody else: not waited for longer.
constexpr auto kDrainPatience = std::chrono::seconds(1);
constexpr auto kLookAgain = std::chrono::milliseconds(300);

}  // namespace

std::optional<GuardianEvent> LocalCrew::next() {
  const auto event = guardian_.next();
  if (event && event->kind == GuardianEvent::Kind::kAllGone) {
    gone_ = true;
    streams_.begin_drain(Clock::now());
  }
  return event;
}

bool LocalCrew::output_open(Clock::time_point now) {
  streams_.close_silent(now, kDrainPatience);
  return streams_.open();
}

std::string LocalCrew::host_of(int /*rank*/) const {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  return host;
}

void LocalCrew::add_to(std::vector<pollfd>& polled) {
  // The guardian's socket stays readable after its end.
  if (!gone_) polled.push_back({.fd = guardian_.fd(), .events = POLLIN, .revents = 0});
  streams_.add_to(polled);
}

std::optional<LocalCrew::Clock::time_point> LocalCrew::next_turn(Clock::time_point now) const {
  auto next = gone_ ? streams_.next_silent(kDrainPatience) : std::nullopt;
  if (streams_.in_background()) next = std::min(next.value_or(Clock::time_point::max()), now + kLookAgain);
  return next;
}

}  // namespace xoe::launch

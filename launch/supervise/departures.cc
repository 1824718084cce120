#include "launch/supervise/departures.h"

#include <algorithm>

#include "core/base/error.h"

namespace xoe::launch {

void Departures::add(const SupervisorEvent& departure) {
  if (resizing_.host_leaves(departure.host) || try_to_let_go(departure)) return;
  if (std::ranges::find(waiting_, departure.host, &SupervisorEvent::host) != waiting_.end()) return;
  waiting_.push_back(departure);
  tell_(fmt::format("host {} is to leave; the job cannot go on without it yet", processes_.host_name(departure.host)));
}

void Departures::keep(std::size_t host) {
  const auto kept =
      std::erase_if(waiting_, [host](const SupervisorEvent& one) { return one.host == host && one.value > 0; });
  if (kept > 0) processes_.keep_host(host);
}

void Departures::look() {
  std::erase_if(waiting_, [this](const SupervisorEvent& departure) { return try_to_let_go(departure); });
}

bool Departures::try_to_let_go(const SupervisorEvent& departure) {
  if (!processes_.has_host(departure.host)) return true;
  const auto until = departure.value > 0 ? Clock::now() + std::chrono::seconds(departure.value) : departure.at;
  if (!resizing_.leave_host(departure.host, until)) return false;
  left_(departure.host);
  tell_(fmt::format("host {} leaves", processes_.host_name(departure.host)));
  return true;
}

std::optional<Departures::Clock::time_point> Departures::save_at() const {
  std::optional<Clock::time_point> first;
  for (const std::size_t host : resizing_.hosts_that_stay()) {
    const auto found = std::ranges::find(waiting_, host, &SupervisorEvent::host);
    // One that a script names no longer is there for as long as it is needed.
    if (found == waiting_.end() || found->value > 0) return std::nullopt;
    first = std::min(first.value_or(found->at), found->at);
  }
  if (first) *first -= kTimeToSave;
  return first;
}

}  // namespace xoe::launch

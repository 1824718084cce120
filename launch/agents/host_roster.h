// Which hosts a job should have now: those that are named and that have not failed a while ago.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "launch/remote/host_list.h"

namespace xoe::launch {

// A host that failed is left out for a while: the longer, the more often it did in a row.
class HostRoster {
 public:
  using Clock = std::chrono::steady_clock;
  HostRoster(std::chrono::nanoseconds cooldown, std::chrono::nanoseconds longest)
      : cooldown_(cooldown), longest_(longest) {}

  // The hosts that there are from now on, by the user's word.
  void name(std::span<const remote::Host> hosts);
  void add(const remote::Host& host);
  // What has become of one.
  void note_there(const std::string& host);
  // Returns for how long it is left out.
  std::chrono::nanoseconds note_failed(const std::string& host, Clock::time_point now);
  // One that failed has not ended yet: it does not come again before note_gone().
  void note_ending(const std::string& host);
  void note_gone(const std::string& host);
  // One that is to be taken away does not come again for a while.
  void exclude(const std::string& host, Clock::time_point now);
  // One that is away stays away until it is named again.
  void strike(const std::string& host);

  // Hosts that should come now; each is said once, until it is noted as failed or gone.
  std::vector<remote::Host> take_wanted(Clock::time_point now);
  // Hosts that are there and no longer named; each is said once.
  std::vector<std::string> take_unwanted();
  // Hosts that take_unwanted() gave and that are named again; each is said once.
  std::vector<std::string> take_named_again() { return std::exchange(named_again_, {}); }
  // Whether a host is away and will not come again, as far as is known.
  bool is_past(const std::string& host) const;
  // When a host that failed may come again.
  std::optional<Clock::time_point> next_turn() const;

 private:
  enum class State { kAway, kComing, kThere, kGoing, kEnding };
  struct Entry {
    remote::Host host;
    bool named = false;
    bool unnamed = false;  // by the last list
    State state = State::kAway;
    int failures = 0;                        // in a row
    std::optional<Clock::time_point> until;  // it is left out
    Clock::time_point there_since = {};
  };

  std::chrono::nanoseconds cooldown_, longest_;
  std::vector<std::string> named_again_;
  std::vector<Entry> entries_;  // in the order in which they were named first
  Entry* find(const std::string& host);
};

}  // namespace xoe::launch

// The other members of a rendezvous: find member 0, and connect to it.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "core/bootstrap/member_connection.h"
#include "launch/remote/spawn.h"
#include "launch/rendezvous/membership.h"
#include "launch/supervise/signal_source.h"
#include "xoe/status.h"

namespace xoe::launch {

struct MetLeader {
  bootstrap::MemberConnection connection = {};
  std::string address = {};  // member 0's, as a number
  int signal = 0;            // that ended the wait; then there is no connection
};

// Waits for the name to be known, and for member 0 to be there, since `began` and at most for `timeout`.
// `unavailable`: it never was, and why; `invalid_argument`: what answers there does not know the secret, for half a
// minute.
Result<MetLeader> meet_leader(const Membership& membership, const std::string& secret,
                              const remote::Inherited& inherited, SignalSource& signals,
                              std::chrono::steady_clock::time_point began, std::chrono::nanoseconds timeout,
                              const std::function<void(const std::string& line)>& say);

}  // namespace xoe::launch

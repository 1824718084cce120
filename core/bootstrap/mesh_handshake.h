// Connects the members of a mesh, and authenticates each connection.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "core/bootstrap/member_connection.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

// An allgather of strings over the members.
using Exchange = std::function<Result<std::vector<std::string>>(const std::string& mine)>;

struct ConnectOptions {
  std::string address = {};  // of this host, as a number, reachable from the others
  std::string secret = {};   // which only the members know; not empty
  // From the moment at which all have told their addresses, and so are there; zero: only the deadline counts.
  std::chrono::nanoseconds limit = {};
  int lanes = 1;  // connections between each two members
  // Those to connect to, each of which must have this one among its own; empty: all others.
  std::vector<int> members = {};
  std::function<std::string(int member)> name = {};  // "rank 3"; empty: "host 3"
  // Receives a line when unauthenticated clients connected, too. Empty: it is dropped.
  std::function<void(const std::string&)> warn = {};
  // Called about once a second, by another thread, while members are awaited or connected to;
  // its error ends the wait. A member that will not come says nothing. Empty: only the deadline ends it.
  std::function<Status()> check = {};
};

// Connections to those members: that of `lane` to `member` is at lane * size + member, and the others are invalid. Each
// member connects to those before it and accepts those after it; both ends prove that they know the secret. Connections
// that do not are dropped, and hold up no member. Of the addresses that are exchanged only those of these members are
// used.
Result<std::vector<MemberConnection>> connect_members(int self, int size, const Exchange& exchange,
                                                      const ConnectOptions& options,
                                                      std::chrono::steady_clock::time_point deadline);

}  // namespace xoe::bootstrap

// An authenticated TCP connection between two members of a job: the end that connects, and the end that accepts.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fd.h"
#include "core/bootstrap/sealed_stream.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

// A non-blocking socket whose other end has proven to be a member, and the keys for what the two send each other.
struct MemberConnection {
  Fd socket = {};
  SessionKeys keys = {};
};

// The client's end of one connection.
struct MemberClient {
  int self = 0, lane = 0;      // its number among the members, and that of the connection
  const std::string& address;  // of the server
  std::string_view secret;
  bool waits = true;           // for a server that does not listen yet; false: `peer_lost` at once
  std::string_view name = {};  // of what both ends join; empty: the address, as the server sees it
  int stop = -1;               // a descriptor: once it is readable, `unavailable` at once; -1: none
};

// Retries while the server drops the connection: on a busy host it may drop a member that is slow to authenticate.
Result<MemberConnection> connect_member(const MemberClient& client, std::chrono::steady_clock::time_point deadline);

// Whom a MemberAcceptor accepts.
struct MemberPolicy {
  std::string secret;
  // Whether this member may connect on this lane now; both are whatever the other end says.
  std::function<bool(std::uint32_t member, std::uint32_t lane)> expects;
  // Takes a member's connection.
  std::function<void(int member, int lane, MemberConnection connection)> admit;
  // Of what both ends join, where the server has several addresses; empty: its address.
  std::string name = {};
};

// Accepts connections and authenticates them side by side, so that a foreign one cannot hold up the members. One thread
// at a time; it sleeps in poll() on what add_entries() gives.
class MemberAcceptor {
 public:
  MemberAcceptor(Fd listener, MemberPolicy policy);

  const std::string& address() const noexcept { return address_; }
  // How many connections did not prove to be a member's.
  std::size_t unauthenticated() const noexcept { return dropped_ - admitted_ + unauthenticated_.size(); }
  // Some have not proven yet who they are, or there is no room for more: serve() must be called again soon, whatever
  // poll() says.
  bool waits() const noexcept { return !unauthenticated_.empty() || paused_until_ != Clock::time_point{}; }

  void add_entries(std::vector<pollfd>& entries) const;
  // `entries`: those that it added, after poll().
  void serve(std::span<const pollfd> entries);

 private:
  using Clock = std::chrono::steady_clock;
  // A connection that has not proven yet that it is a member's.
  struct Unauthenticated {
    Fd socket;
    Clock::time_point deadline;
    std::string bytes = {};
    std::string expected = {};  // its proof
    std::uint32_t member = 0, lane = 0;
    SessionKeys keys = {};
  };

  bool accept();
  void drop_one();
  bool read_from(Unauthenticated& peer);
  bool challenge(Unauthenticated& peer) const;
  bool admit(Unauthenticated& peer);

  Fd listener_;
  const std::string address_;
  const MemberPolicy policy_;
  std::vector<Unauthenticated> unauthenticated_;
  Clock::time_point paused_until_ = {};     // the listener is not watched; zero: it is
  std::size_t dropped_ = 0, admitted_ = 0;  // a connection that was admitted leaves the list like one that was dropped
};

}  // namespace xoe::bootstrap

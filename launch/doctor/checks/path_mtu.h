// The largest packet that reaches another host. Where a tunnel on the way takes less than this host's interface and
// no message tells so, connections open and then stall.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace xoe::doctor {

struct PathMtu {
  enum class State : std::uint8_t {
    kUnknown,  // the host does not answer packets to a closed port: a filter drops them or its answers
    kReached,  // a packet of `mtu` bytes arrived
    kSmaller,  // the way takes `mtu` bytes, less than the interface, and a router says so
    kLost,     // small packets arrive, those of `mtu` bytes do not, and nothing says so
  };
  State state = State::kUnknown;
  std::int64_t mtu = 0;  // bytes, with the IP header; 0: not known
};

// Sends a few UDP packets without fragmentation to a closed port of this address (IPv4 or IPv6, as a number), whose
// host answers that it is closed. Takes at most about `patience`.
PathMtu probe_path(const std::string& address, std::chrono::milliseconds patience);

}  // namespace xoe::doctor

// The network interfaces of this host, and which of its addresses the other hosts are to reach.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "xoe/status.h"

namespace xoe::bootstrap {

struct Interface {
  std::string name;     // "eth0"
  std::string address;  // as a number
  bool loopback = false;
};

// Those of this host that are up, in the kernel's order.
Result<std::vector<Interface>> local_interfaces();

// The address of the first interface that `wanted` names: names and networks (10.0.0.0/8, fd00::/8) separated by
// commas, the first that fits wins. Empty: the first that is no loopback, IPv4 before IPv6, a container's bridge after
// all others, and a loopback last. `invalid_argument` for what is neither name nor network, `unavailable` when none
// fits; both list what there is.
Result<std::string> choose_address(const std::vector<Interface>& interfaces, std::string_view wanted);

// Whether this host can be reached at an address: `unavailable`, with what there is, if it is another host's.
Status check_address(const std::string& address, const std::vector<Interface>& interfaces);

}  // namespace xoe::bootstrap

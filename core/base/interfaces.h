// The network interfaces of this host.
#pragma once

#include <string>
#include <vector>

#include "xoe/status.h"

namespace xoe {

// An interface with one of its addresses.
struct Interface {
  std::string name;     // "eth0"
  std::string address;  // in numbers; empty: this entry is not of IPv4 or IPv6
  bool loopback = false;
  bool up = true;
  bool running = true;  // has a carrier
};

// All of them, in the kernel's order: an entry for each address, and one for each interface itself.
Result<std::vector<Interface>> all_interfaces();

// Only addresses of interfaces that are up, without those that are valid on one link only (IPv6).
Result<std::vector<Interface>> local_interfaces();

}  // namespace xoe

// The addresses of interfaces: asked of the kernel, or read from a recorded /proc/net.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launch/doctor/facts/tree.h"

namespace xoe::doctor {

// The kernel's state of an interface. /sys may show another network name space: the one in which it was mounted.
struct Link {
  bool up = false;
  bool loopback = false;
};

// By name; of the running machine only.
std::map<std::string, Link> live_links();

// By interface, IPv4 first. Link-local addresses are left out.
std::map<std::string, std::vector<std::string>> read_addresses(const Tree& tree);

}  // namespace xoe::doctor

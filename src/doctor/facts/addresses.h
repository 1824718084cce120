// The addresses of interfaces: asked of the kernel, or read from a recorded /proc/net.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "doctor/facts/tree.h"

namespace xoe::doctor {

// What the kernel says of an interface itself. /sys may be of another network name space: it shows that of its mount.
struct Link {
  bool up = false;
  bool loopback = false;
};

// By name. Of the running machine alone.
std::map<std::string, Link> live_links();

// By interface, IPv4 first. Those that are valid on one link only are left out.
std::map<std::string, std::vector<std::string>> read_addresses(const Tree& tree);

}  // namespace xoe::doctor

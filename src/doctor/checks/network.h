// Network interfaces, their addresses, and which one TCP between hosts would take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "doctor/facts/tree.h"
#include "doctor/report/finding.h"

namespace xoe::doctor {

struct NetworkInterface {
  std::string name = {};
  std::string driver = {};  // empty: made by software
  std::string device = {};  // its PCI address; empty: none
  std::string kind = {};    // "ethernet", "infiniband", "loopback", "other"
  bool up = false;          // and its cable is in
  bool inner = false;       // reaches containers and virtual machines of this host only
  bool default_route = false;
  std::optional<std::int64_t> mbit = {};  // per second; nullopt: it does not say
  std::int64_t mtu = 0;
  int numa_node = -1;
  std::vector<std::string> addresses = {};  // without those of the link only (169.254/16, fe80::/10)
};

std::vector<NetworkInterface> read_interfaces(const Tree& tree);
// The interface that TCP between hosts would use: the default route's, else the fastest; nullptr: no interface leaves
// this host.
const NetworkInterface* chosen_interface(const std::vector<NetworkInterface>& interfaces);
Findings check_network(const std::vector<NetworkInterface>& interfaces);

}  // namespace xoe::doctor

// The address at which the launcher's store listens, so that every host reaches it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/remote/frame.h"
#include "xoe/status.h"

namespace xoe::launch {

// Addresses of this host's interfaces that are up, without loopback.
Result<std::vector<std::string>> local_addresses();

// For the hosts that sent `hellos`: on a wanted interface when this host has one (it may be a login node without), else
// the address that one of them saw as the launcher's, else the one that leads to them. Without other hosts: 127.0.0.1.
// No name is resolved: a host's name in the user's list may be an alias that only ssh knows.
Result<std::string> store_address(std::string_view wanted, std::span<const remote::Hello> hellos);

// The interface of this host through which a rank that chooses by the same rules reaches the others; empty: not known.
std::string traffic_interface(std::string_view wanted, const std::string& store);

// Connects to the store's address; `unavailable` with the reason, after some seconds at the latest.
Status check_reachable(const std::string& store);

}  // namespace xoe::launch

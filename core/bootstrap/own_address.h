// Which of this host's addresses the other hosts should use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/interfaces.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

// The address of the first interface that `wanted` names: names and networks (10.0.0.0/8, fd00::/8) separated by
// commas, the first that fits wins. Empty: the first that is no loopback, IPv4 before IPv6, a container's bridge after
// all others, and a loopback last. `invalid_argument` for a word that is neither name nor network, `unavailable` when
// none fits; both list the interfaces.
Result<std::string> choose_address(const std::vector<Interface>& interfaces, std::string_view wanted);

// `unavailable`, with a list of the interfaces, when the address is not one of this host.
Status check_address(const std::string& address, const std::vector<Interface>& interfaces);

// choose_address() among this host's interfaces. With nothing `wanted`, the address from which this host would reach
// `towards` (a number), if there is a route.
Result<std::string> own_address(std::string_view wanted, std::string_view towards = {});

}  // namespace xoe::bootstrap

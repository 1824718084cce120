// The addresses of member 0's host.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "core/bootstrap/socket_address.h"
#include "launch/remote/spawn.h"
#include "xoe/status.h"

namespace xoe::launch {

// A name is resolved by xoe-doctor, beside this program, which is linked without the system's resolver. `unavailable`:
// the name is not known here, yet, or not within `timeout`.
Result<std::vector<bootstrap::SocketAddress>> find_addresses(const std::string& host, std::uint16_t port,
                                                             const remote::Inherited& inherited,
                                                             std::chrono::milliseconds timeout);

}  // namespace xoe::launch

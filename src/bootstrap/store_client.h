// The asking half of the store.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "bootstrap/socket_address.h"
#include "bootstrap/store.h"

namespace xoe::bootstrap {

// Connects and says hello. While nobody listens there: tries again until `timeout` when `wait` is set, else
// `peer_lost` at once.
Result<std::unique_ptr<Store>> connect_store(const SocketAddress& address, std::string secret, bool wait,
                                             std::chrono::nanoseconds timeout);

}  // namespace xoe::bootstrap

// The client of the store.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "core/bootstrap/socket_address.h"
#include "core/bootstrap/store.h"

namespace xoe::bootstrap {

// Connects and authenticates. While no server listens at the address: retries until `timeout` if `wait` is set, else
// fails with `peer_lost` at once.
Result<std::unique_ptr<Store>> connect_store(const SocketAddress& address, std::string secret, bool wait,
                                             std::chrono::nanoseconds timeout,
                                             std::unique_ptr<StoreServer> server = nullptr);

}  // namespace xoe::bootstrap

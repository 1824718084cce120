// Addresses that only programs of this host reach.
#pragma once

#include <string_view>

namespace xoe::pool {

inline bool is_loopback(std::string_view address) {
  return address == "127.0.0.1" || address == "::1" || address == "localhost";
}

}  // namespace xoe::pool

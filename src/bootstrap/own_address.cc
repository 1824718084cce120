#include "bootstrap/own_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>

#include "base/error.h"
#include "base/fd.h"
#include "bootstrap/interfaces.h"

namespace xoe::bootstrap {
namespace {

// Where the routing table would send a packet from; nothing is sent.
std::optional<std::string> address_towards(std::string_view target) {
  const std::string text(target);
  sockaddr_storage to{};
  socklen_t size = 0;
  auto& v4 = reinterpret_cast<sockaddr_in&>(to);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(to);
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(9);
    size = sizeof v4;
  } else if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(9);
    size = sizeof v6;
  } else {
    return std::nullopt;
  }
  const Fd socket(::socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() || ::connect(socket.get(), reinterpret_cast<sockaddr*>(&to), size) != 0) return std::nullopt;
  sockaddr_storage from{};
  socklen_t from_size = sizeof from;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&from), &from_size) != 0) return std::nullopt;
  char out[INET6_ADDRSTRLEN] = {};
  const void* bytes = from.ss_family == AF_INET
                          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(from).sin_addr)
                          : &reinterpret_cast<const sockaddr_in6&>(from).sin6_addr;
  if (::inet_ntop(from.ss_family, bytes, out, sizeof out) == nullptr) return std::nullopt;
  return out;
}

}  // namespace

Result<std::string> own_address(std::string_view interfaces, std::string_view towards) {
  if (interfaces.empty() && !towards.empty())
    if (auto address = address_towards(towards)) return std::move(*address);
  XOE_ASSIGN(const auto all, local_interfaces());
  return choose_address(all, interfaces);
}

}  // namespace xoe::bootstrap

// Hosts by their names. Alone in its file: see SocketAddress::resolve().
#include <netdb.h>

#include <cstring>
#include <string_view>

#include "core/base/error.h"
#include "core/bootstrap/socket_address.h"

namespace xoe::bootstrap {
namespace {

// In a root without /etc/hosts nothing else may know this name; RFC 6761 says what it means.
constexpr std::string_view kThisHost = "localhost";
constexpr std::string_view kLoopback = "127.0.0.1";

}  // namespace

Result<std::vector<std::string>> SocketAddress::resolve_all(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0 && host == kThisHost) return std::vector{std::string(kLoopback)};
  if (error != 0) return failure(Code::kUnavailable, "{}", ::gai_strerror(error));
  std::vector<std::string> numbers;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    SocketAddress one;
    std::memcpy(&one.address_, at->ai_addr, at->ai_addrlen);
    one.size_ = at->ai_addrlen;
    numbers.push_back(one.host());
  }
  ::freeaddrinfo(found);
  return numbers;
}

Result<SocketAddress> SocketAddress::resolve(std::string_view text) {
  if (auto numeric = parse(text)) return numeric;
  XOE_ASSIGN(const TcpEndpoint endpoint, parse_tcp(text));
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
  if (error != 0 && endpoint.host == kThisHost) return parse(fmt::format("tcp:{}:{}", kLoopback, endpoint.port));
  if (error != 0)
    return failure(Code::kUnavailable, "the address of host {} is not known here: {}", endpoint.host,
                   ::gai_strerror(error));
  SocketAddress made;
  std::memcpy(&made.address_, found->ai_addr, found->ai_addrlen);
  made.size_ = found->ai_addrlen;
  ::freeaddrinfo(found);
  return made;
}

}  // namespace xoe::bootstrap

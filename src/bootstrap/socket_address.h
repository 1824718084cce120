// Where the store and the links between hosts listen: unix sockets in the abstract name space, and TCP.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

class SocketAddress {
 public:
  // "unix:@NAME", "tcp:ADDRESS:PORT" or "tcp:[ADDRESS]:PORT" (IPv6), with numbers as ADDRESS. `invalid_argument` for
  // any other text and for names that are too long.
  static Result<SocketAddress> parse(std::string_view text);
  // Also accepts a host's name as ADDRESS; `unavailable` when it cannot be resolved. Only ranks call this: `xoe run` is
  // given numbers, and must not link glibc's resolver, which does not work in a static program.
  static Result<SocketAddress> resolve(std::string_view text);
  // `host` as a number, like "10.0.0.5" or "fd00::1".
  static Result<SocketAddress> tcp(const std::string& host, std::uint16_t port);
  // The local address of a socket.
  static SocketAddress of(int socket);

  // Between hosts: who is at the other end has to prove itself, since the kernel does not vouch for it.
  bool remote() const noexcept { return address_.ss_family != AF_UNIX; }
  // In the form that parse() takes.
  std::string text() const;
  // TCP: the address alone, without the port.
  std::string host() const;

  const sockaddr* address() const noexcept { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t size() const noexcept { return size_; }

 private:
  sockaddr_storage address_ = {};
  socklen_t size_ = 0;
};

// "tcp:HOST:PORT" and "tcp:[HOST]:PORT" in parts; `invalid_argument` for anything else.
struct TcpEndpoint {
  std::string host;
  std::uint16_t port = 0;
};
Result<TcpEndpoint> parse_tcp(std::string_view text);

// A listening socket that does not block. `unavailable` when the address is taken.
Result<Fd> listen_at(const SocketAddress& address);

// A connected socket that does not block, within the deadline. While nobody listens there: tries again when `wait` is
// set, else `peer_lost` at once. `timeout` and `unavailable` name the address.
Result<Fd> connect_to(const SocketAddress& address, bool wait, std::chrono::steady_clock::time_point deadline);

// The process at the other end of a unix socket runs as this user.
bool peer_is_same_user(int socket) noexcept;

// Small messages leave at once, and a host that vanished is noticed.
void set_tcp_options(int socket) noexcept;

}  // namespace xoe::bootstrap

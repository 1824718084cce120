// Addresses of the store and of connections between hosts: unix sockets in the abstract namespace, and TCP.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fd.h"
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
  // The addresses of a host, as numbers, in the order in which they are to be tried. As resolve(), not for `xoe run`.
  static Result<std::vector<std::string>> resolve_all(const std::string& host);
  // `host` as a number, like "10.0.0.5" or "fd00::1".
  static Result<SocketAddress> tcp(const std::string& host, std::uint16_t port);
  // The local address of a socket.
  static SocketAddress of(int socket);

  // TCP: the other end has to authenticate, since the kernel does not tell its user.
  bool remote() const noexcept { return address_.ss_family != AF_UNIX; }
  // In the form that parse() accepts.
  std::string text() const;
  // TCP: the address alone, without the port.
  std::string host() const;

  const sockaddr* address() const noexcept { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t size() const noexcept { return size_; }

 private:
  sockaddr_storage address_ = {};
  socklen_t size_ = 0;
};

// The parts of "tcp:HOST:PORT" or "tcp:[HOST]:PORT"; `invalid_argument` for anything else.
struct TcpEndpoint {
  std::string host;
  std::uint16_t port = 0;
};
Result<TcpEndpoint> parse_tcp(std::string_view text);

// A listening socket that does not block. `unavailable` when the address is taken.
Result<Fd> listen_at(const SocketAddress& address);

// A connected, non-blocking socket, within the deadline. While no process listens at the address: retries if `wait` is
// set, else fails with `peer_lost` at once. `timeout` and `unavailable` name the address. `stop`: a descriptor that
// ends it, with `unavailable`, once it is readable; -1: none.
Result<Fd> connect_to(const SocketAddress& address, bool wait, std::chrono::steady_clock::time_point deadline,
                      int stop = -1);

// Sleeps for `pause`, or until `stop` is readable: true.
bool is_stopped_within(int stop, std::chrono::nanoseconds pause);

// Whether the process at the other end of a unix socket runs as this user.
bool peer_is_same_user(int socket) noexcept;

// Sends small messages without delay, and detects hosts that vanish.
void set_tcp_options(int socket) noexcept;

}  // namespace xoe::bootstrap

#include "core/bootstrap/socket_address.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::bootstrap {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kUnix = "unix:@";
constexpr std::string_view kTcp = "tcp:";

tl::unexpected<Error> unclear(std::string_view text) {
  return failure(Code::kInvalidArgument, "address \"{}\": expected unix:@NAME or tcp:ADDRESS:PORT", text);
}

// True when the connection that is under way has been made; false with errno, ECANCELED where `stop` was readable.
bool finish_connect(int socket, Clock::time_point deadline, int stop) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      errno = ETIMEDOUT;
      return false;
    }
    std::array entries{pollfd{.fd = socket, .events = POLLOUT, .revents = 0},
                       pollfd{.fd = stop, .events = POLLIN, .revents = 0}};
    if (::poll(entries.data(), entries.size(), static_cast<int>(std::min<std::int64_t>(left, 60000))) <= 0) continue;
    if (entries[1].revents != 0) {
      errno = ECANCELED;
      return false;
    }
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
    errno = error;
    return error == 0;
  }
}

}  // namespace

Result<TcpEndpoint> parse_tcp(std::string_view text) {
  const auto colon = text.rfind(':');
  if (!text.starts_with(kTcp) || colon <= kTcp.size()) return unclear(text);
  std::string_view name = text.substr(kTcp.size(), colon - kTcp.size());
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  const auto number = parse_integer(text.substr(colon + 1));
  if (name.empty() || name.find('/') != std::string_view::npos || !number || *number < 0 || *number > 65535)
    return unclear(text);
  return TcpEndpoint{.host = std::string(name), .port = static_cast<std::uint16_t>(*number)};
}

Result<SocketAddress> SocketAddress::parse(std::string_view text) {
  SocketAddress made;
  if (text.starts_with(kUnix)) {
    const std::string_view name = text.substr(kUnix.size());
    auto& address = reinterpret_cast<sockaddr_un&>(made.address_);
    constexpr std::size_t kMost = sizeof address.sun_path - 1;
    if (name.empty() || name.size() > kMost)
      return failure(Code::kInvalidArgument, "address \"{}\": the name must have 1 to {} bytes", text, kMost);
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());  // the zero byte before makes it abstract
    made.size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    return made;
  }
  XOE_ASSIGN(const TcpEndpoint endpoint, parse_tcp(text));
  return tcp(endpoint.host, endpoint.port);
}

Result<SocketAddress> SocketAddress::tcp(const std::string& host, std::uint16_t port) {
  SocketAddress made;
  auto& v4 = reinterpret_cast<sockaddr_in&>(made.address_);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(made.address_);
  if (::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    made.size_ = sizeof v4;
  } else if (::inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    made.size_ = sizeof v6;
  } else {
    return failure(Code::kInvalidArgument, "'{}' is not an address like 10.1.2.3 or fd00::1", host);
  }
  return made;
}

SocketAddress SocketAddress::of(int socket) {
  SocketAddress made;
  made.size_ = sizeof made.address_;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&made.address_), &made.size_);
  return made;
}

std::string SocketAddress::host() const {
  char text[INET6_ADDRSTRLEN] = {};
  if (address_.ss_family == AF_INET6)
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address_).sin6_addr, text, sizeof text);
  else
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address_).sin_addr, text, sizeof text);
  return text;
}

std::string SocketAddress::text() const {
  if (address_.ss_family == AF_UNIX) {
    const auto& address = reinterpret_cast<const sockaddr_un&>(address_);
    const std::size_t length = size_ - offsetof(sockaddr_un, sun_path) - 1;
    return std::string(kUnix).append(address.sun_path + 1, length);
  }
  if (address_.ss_family == AF_INET6)
    return fmt::format("{}[{}]:{}", kTcp, host(), ntohs(reinterpret_cast<const sockaddr_in6&>(address_).sin6_port));
  return fmt::format("{}{}:{}", kTcp, host(), ntohs(reinterpret_cast<const sockaddr_in&>(address_).sin_port));
}

Result<Fd> listen_at(const SocketAddress& address) {
  Fd listener(::socket(address.address()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.valid()) return failure(Code::kUnavailable, "cannot make a socket: {}", errno_text(errno));
  const int on = 1;
  if (address.remote()) ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(listener.get(), address.address(), address.size()) != 0) {
    const Code code = errno == EADDRINUSE ? Code::kUnavailable : Code::kInternal;
    return failure(code, "cannot serve at {}: {}", address.text(), errno_text(errno));
  }
  if (::listen(listener.get(), 1024) != 0)
    return failure(Code::kInternal, "cannot listen at {}: {}", address.text(), errno_text(errno));
  return listener;
}

bool is_stopped_within(int stop, std::chrono::nanoseconds pause) {
  pollfd entry{.fd = stop, .events = POLLIN, .revents = 0};
  const timespec limit{.tv_sec = pause.count() / 1'000'000'000, .tv_nsec = pause.count() % 1'000'000'000};
  return ::ppoll(&entry, 1, &limit, nullptr) == 1;
}

Result<Fd> connect_to(const SocketAddress& address, bool wait, Clock::time_point deadline, int stop) {
  auto pause = std::chrono::microseconds(200);
  while (true) {
    Fd socket(::socket(address.address()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.valid()) return failure(Code::kUnavailable, "cannot make a socket: {}", errno_text(errno));
    if (address.remote()) set_tcp_options(socket.get());
    if (::connect(socket.get(), address.address(), address.size()) == 0) return socket;
    if (errno == EINPROGRESS && finish_connect(socket.get(), deadline, stop)) return socket;
    const int error = errno;
    if (error == ECANCELED) return failure(Code::kUnavailable, "no answer at {} so far: given up", address.text());
    // EAGAIN: the backlog of the unix socket is full.
    if (error != EAGAIN && error != EINTR && error != ETIMEDOUT && !(wait && error == ECONNREFUSED))
      return failure(Code::kPeerLost, "no answer at {}: {}", address.text(), errno_text(error));
    if (Clock::now() >= deadline)
      return failure(Code::kTimeout, "no answer at {}: {}", address.text(), errno_text(error));
    if (is_stopped_within(stop, pause))
      return failure(Code::kUnavailable, "no answer at {} so far: given up", address.text());
    pause = std::min(pause * 2, std::chrono::microseconds(5000));
  }
}

bool peer_is_same_user(int socket) noexcept {
  ucred peer = {};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

void set_tcp_options(int socket) noexcept {
  const int on = 1, idle = 10, interval = 5, probes = 3;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

}  // namespace xoe::bootstrap

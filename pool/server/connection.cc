#include "pool/server/connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace xoe::pool {
namespace {

constexpr std::size_t kBytesInASecond = 16 << 10;  // of the slowest client that is served

void read_address(const sockaddr_storage& address, std::string& ip, int& port) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  if (address.ss_family == AF_INET) {
    sockaddr_in four = {};
    std::memcpy(&four, &address, sizeof four);
    ip = ::inet_ntop(AF_INET, &four.sin_addr, text.data(), text.size());
    port = ntohs(four.sin_port);
  }
  if (address.ss_family == AF_INET6) {
    sockaddr_in6 six = {};
    std::memcpy(&six, &address, sizeof six);
    ip = ::inet_ntop(AF_INET6, &six.sin6_addr, text.data(), text.size());
    port = ntohs(six.sin6_port);
  }
}

}  // namespace

Connection::Connection(Fd socket, SSL_CTX* tls) : socket_(std::move(socket)) {
  if (tls == nullptr) return;
  tls_.reset(SSL_new(tls));
  SSL_set_fd(tls_.get(), socket_.get());
  SSL_set_accept_state(tls_.get());
  SSL_set_mode(tls_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_set_options(tls_.get(), SSL_OP_NO_RENEGOTIATION);
}

Connection::Got Connection::receive(std::size_t most) {
  std::array<char, 16384> part;
  Got got = Got::kNothing;
  while (received.size() < most) {
    const std::size_t room = std::min(part.size(), most - received.size());
    if (tls_ != nullptr) {
      ERR_clear_error();
      std::size_t count = 0;
      const int read = SSL_read_ex(tls_.get(), part.data(), room, &count);
      if (read != 1) {
        // What a handshake answers is small: it finds room in the socket's buffer.
        const bool more = SSL_get_error(tls_.get(), read) == SSL_ERROR_WANT_READ;
        return more || got == Got::kSome ? got : Got::kEnd;
      }
      received.append(part.data(), count);
    } else {
      const auto count = ::recv(socket_.get(), part.data(), room, MSG_DONTWAIT);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return got;
      if (count <= 0) return got == Got::kSome ? got : Got::kEnd;
      received.append(part.data(), static_cast<std::size_t>(count));
    }
    got = Got::kSome;
  }
  return got;
}

bool Connection::await(short events, std::chrono::steady_clock::time_point end) const {
  for (;;) {
    pollfd one = {.fd = socket_.get(), .events = events, .revents = 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    const int ready = ::poll(&one, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (ready < 0 && errno == EINTR) continue;
    return ready > 0 && (one.revents & (POLLERR | POLLNVAL)) == 0;
  }
}

bool Connection::send(std::string_view text, Span timeout) {
  const auto begin = std::chrono::steady_clock::now();
  const auto end = begin + timeout + std::chrono::seconds(text.size() / kBytesInASecond);
  auto progress = begin;
  while (!text.empty()) {
    std::size_t count = 0;
    short wait_for = POLLOUT;
    if (tls_ != nullptr) {
      ERR_clear_error();
      const int written = SSL_write_ex(tls_.get(), text.data(), text.size(), &count);
      const int error = written == 1 ? SSL_ERROR_NONE : SSL_get_error(tls_.get(), written);
      if (error == SSL_ERROR_WANT_READ)
        wait_for = POLLIN;
      else if (error != SSL_ERROR_NONE && error != SSL_ERROR_WANT_WRITE)
        return false;
    } else {
      const auto written = ::send(socket_.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (written < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) return false;
      count = static_cast<std::size_t>(std::max<ssize_t>(0, written));
    }
    text.remove_prefix(count);
    if (count == 0 && !await(wait_for, std::min(end, progress + timeout))) return false;
    const auto now = std::chrono::steady_clock::now();
    if (!text.empty() && now >= end) return false;
    if (count > 0) progress = now;
  }
  return true;
}

void Connection::finish() {
  ERR_clear_error();
  if (tls_ != nullptr) SSL_shutdown(tls_.get());
  ::shutdown(socket_.get(), SHUT_WR);
}

bool Connection::awaits_more(Span timeout) const {
  if (!await(POLLOUT, std::chrono::steady_clock::now() + timeout)) return false;
  char byte = 0;
  return ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;  // 0: the client has closed it
}

ssize_t ReceivedStream::read(char* to, size_t size) {
  const std::size_t count = connection_.received.copy(to, size, consumed_);
  consumed_ += count;
  return static_cast<ssize_t>(count);
}

ssize_t ReceivedStream::write(const char* from, size_t size) {
  return connection_.send({from, size}, timeout_) ? static_cast<ssize_t>(size) : -1;
}

void ReceivedStream::get_remote_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (::getpeername(socket(), reinterpret_cast<sockaddr*>(&address), &size) == 0) read_address(address, ip, port);
}

void ReceivedStream::get_local_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (::getsockname(socket(), reinterpret_cast<sockaddr*>(&address), &size) == 0) read_address(address, ip, port);
}

}  // namespace xoe::pool

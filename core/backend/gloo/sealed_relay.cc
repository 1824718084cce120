#include "core/backend/gloo/sealed_relay.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/no_room.h"
#include "core/base/text.h"
#include "core/bootstrap/socket_address.h"

namespace xoe::gloo {
namespace {

using bootstrap::SocketAddress;

constexpr auto kLastBytes = std::chrono::seconds(1);
constexpr auto kLoopbackTimeout = std::chrono::seconds(10);

struct SocketPair {
  Fd first, second;
};

bool is_peer(const Fd& socket, const Fd& other) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  const SocketAddress own = SocketAddress::of(other.get());
  return ::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&peer), &size) == 0 && size == own.size() &&
         std::memcmp(&peer, own.address(), size) == 0;
}

// Two ends of a connection through the loopback interface: Gloo sets options that only TCP has. Other programs may
// connect to the listener, but only one socket has the address of our own.
Result<SocketPair> connected_sockets() {
  XOE_ASSIGN(const auto any, SocketAddress::tcp("127.0.0.1", 0));
  XOE_ASSIGN(const Fd listener, bootstrap::listen_at(any));
  const auto deadline = std::chrono::steady_clock::now() + kLoopbackTimeout;
  XOE_ASSIGN(Fd first, bootstrap::connect_to(SocketAddress::of(listener.get()), /*wait=*/false, deadline));
  while (std::chrono::steady_clock::now() < deadline) {
    pollfd entry{.fd = listener.get(), .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, 100);
    Fd second(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!second.valid() && is_no_room(errno))
      return failure(Code::kResourceExhausted, "gloo: no connection through the loopback interface: {}",
                     errno_text(errno));
    if (!second.valid() || !is_peer(second, first)) continue;
    bootstrap::set_tcp_options(second.get());
    return SocketPair{.first = std::move(first), .second = std::move(second)};
  }
  return failure(Code::kUnavailable, "gloo: no connection through the loopback interface 127.0.0.1");
}

bool is_done(const auto& direction) noexcept { return direction.ended && direction.pending.empty(); }

}  // namespace

SealedRelay::SealedRelay(Changed changed) : changed_(std::move(changed)), wakeup_(::eventfd(0, EFD_CLOEXEC)) {}

Result<std::unique_ptr<SealedRelay>> SealedRelay::start(std::vector<bootstrap::MemberConnection> connections,
                                                        Changed changed) {
  std::unique_ptr<SealedRelay> relay(new SealedRelay(std::move(changed)));
  if (!relay->wakeup_.valid()) return failure(Code::kResourceExhausted, "eventfd: {}", errno_text(errno));
  relay->plain_ends_.resize(connections.size());
  for (std::size_t i = 0; i < connections.size(); ++i)
    if (connections[i].socket.valid()) XOE_TRY(relay->add(std::move(connections[i]), i));
  try {
    relay->thread_ = std::jthread([raw = relay.get()](const std::stop_token& stop) { raw->run(stop); });
  } catch (const std::system_error&) {
    return failure(Code::kResourceExhausted, "cannot start a thread (limit of processes?)");
  }
  return relay;
}

Status SealedRelay::add(bootstrap::MemberConnection connection, std::size_t number) {
  XOE_ASSIGN(SocketPair pair, connected_sockets());
  plain_ends_[number] = std::move(pair.first);
  pipes_.push_back({.connection = number,
                    .outside = std::move(connection.socket),
                    .inside = std::move(pair.second),
                    .sealer = bootstrap::Sealer(std::move(connection.keys.send)),
                    .opener = bootstrap::Opener(std::move(connection.keys.receive))});
  return {};
}

SealedRelay::~SealedRelay() {
  if (!thread_.joinable()) return;
  plain_ends_.clear();
  thread_.request_stop();
  ::eventfd_write(wakeup_.get(), 1);
}

void SealedRelay::run(const std::stop_token& stop) {
  auto end = Clock::time_point::max();
  std::vector<pollfd> entries;
  while (!pipes_.empty() || !stop.stop_requested()) {
    if (stop.stop_requested() && end == Clock::time_point::max()) end = Clock::now() + kLastBytes;
    const bool leaving = end != Clock::time_point::max();
    if (leaving && (Clock::now() >= end || std::ranges::all_of(pipes_, [](auto& pipe) { return is_done(pipe.out); })))
      return;
    entries.assign(1, {.fd = leaving ? -1 : wakeup_.get(), .events = POLLIN, .revents = 0});
    for (const Pipe& pipe : pipes_) {
      const auto events = [](const Direction& from, const Direction& to) {
        return static_cast<short>((from.ended || !from.pending.empty() ? 0 : POLLIN) |
                                  (to.pending.empty() ? 0 : POLLOUT));
      };
      // Without events a socket that broke would be reported again and again.
      const auto entry = [](const Fd& fd, short wanted) {
        return pollfd{.fd = wanted == 0 ? -1 : fd.get(), .events = wanted, .revents = 0};
      };
      entries.push_back(entry(pipe.outside, events(pipe.in, pipe.out)));
      entries.push_back(entry(pipe.inside, events(pipe.out, pipe.in)));
    }
    ::poll(entries.data(), entries.size(), leaving ? 100 : -1);
    for (std::size_t i = 0; i < pipes_.size(); ++i)
      move(pipes_[i], entries[1 + 2 * i].revents, entries[2 + 2 * i].revents);
    std::erase_if(pipes_, [](const Pipe& pipe) { return is_done(pipe.out) && is_done(pipe.in); });
  }
}

void SealedRelay::move(Pipe& pipe, short outside, short inside) {
  constexpr short kReadable = POLLIN | POLLHUP | POLLERR;
  if ((inside & kReadable) != 0 && !pipe.out.ended && pipe.out.pending.empty()) read_inside(pipe);
  if ((outside & kReadable) != 0 && !pipe.in.ended && pipe.in.pending.empty()) read_outside(pipe);
  write(pipe.outside, pipe.out);
  write(pipe.inside, pipe.in);
  if (is_done(pipe.out)) ::shutdown(pipe.outside.get(), SHUT_WR);
  if (is_done(pipe.in)) ::shutdown(pipe.inside.get(), SHUT_WR);
}

void SealedRelay::read_inside(Pipe& pipe) {
  std::array<char, bootstrap::kMaxRecord> bytes;
  const auto count = ::recv(pipe.inside.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count > 0)
    pipe.sealer.seal({bytes.data(), static_cast<std::size_t>(count)}, pipe.out.pending);
  else if (count == 0 || (errno != EAGAIN && errno != EINTR))
    pipe.out.ended = true;
}

void SealedRelay::read_outside(Pipe& pipe) {
  std::array<char, bootstrap::kMaxRecord> bytes;
  const auto count = ::recv(pipe.outside.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count > 0) {
    if (pipe.opener.open({bytes.data(), static_cast<std::size_t>(count)}, pipe.in.pending)) return;
    pipe.in = {.ended = true};
    pipe.out = {.ended = true};
    changed_(pipe.connection);
  } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
    pipe.in.ended = true;
  }
}

// Where the other end takes no more, the direction ends; this side reads of it by itself.
void SealedRelay::write(const Fd& to, Direction& direction) {
  while (direction.sent < direction.pending.size()) {
    const auto count = ::send(to.get(), direction.pending.data() + direction.sent,
                              direction.pending.size() - direction.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) {
      direction = {.ended = true};
      return;
    }
    direction.sent += static_cast<std::size_t>(count);
  }
  direction.pending.clear();
  direction.sent = 0;
}

}  // namespace xoe::gloo

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <span>

#include "core/base/error.h"
#include "core/bootstrap/socket_address.h"
#include "launch/doctor/cluster/probe.h"

namespace xoe::doctor {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kConnectTimeout = milliseconds(300);
constexpr auto kEchoTimeout = milliseconds(200);  // for all of them on one address
constexpr auto kEchoTime = milliseconds(30);
constexpr auto kLoadTime = milliseconds(400);  // for all addresses together
constexpr int kMaxEchoes = 200;
constexpr std::size_t kEchoBytes = 64;

int milliseconds_to(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 10'000));
}

// A connection that may still be under way. Numbers only: no name is looked up.
Result<Fd> begin_connection(const std::string& text, int port) {
  const auto address = bootstrap::SocketAddress::tcp(text, static_cast<std::uint16_t>(port));
  if (!address) return failure(Code::kInvalidArgument, "no IP address: {}", text);
  Fd fd(::socket(address->address()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return failure(Code::kUnavailable, "{}", errno_text(errno));
  const int yes = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  if (::connect(fd.get(), address->address(), address->size()) != 0 && errno != EINPROGRESS)
    return failure(Code::kUnavailable, "{}", errno_text(errno));
  return fd;
}

Status finish_connection(const Fd& fd, Clock::time_point deadline) {
  pollfd entry{fd.get(), POLLOUT, 0};
  if (::poll(&entry, 1, milliseconds_to(deadline)) <= 0)
    return failure(Code::kTimeout, "no answer within {} ms", kConnectTimeout.count());
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return failure(Code::kUnavailable, "{}", errno_text(error));
  return {};
}

// Fills the memory with what comes; false: less than that came in time.
bool receive(const Fd& fd, std::span<char> to, Clock::time_point deadline) {
  while (!to.empty()) {
    pollfd entry{fd.get(), POLLIN, 0};
    if (::poll(&entry, 1, milliseconds_to(deadline)) <= 0) return false;
    const auto count = ::recv(fd.get(), to.data(), to.size(), 0);
    if (count <= 0) return false;
    to = to.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

bool send_hello(const Fd& fd, const std::string& token, char mode, std::size_t number) {
  std::string nonce(bootstrap::kNonceBytes, '\0');
  if (!receive(fd, nonce, Clock::now() + kConnectTimeout)) return false;
  const std::string asked = std::string("XOE2") + mode + static_cast<char>(number);
  const std::string hello = asked + bootstrap::make_proof(token, bootstrap::End::kClient, asked, nonce);
  return ::send(fd.get(), hello.data(), hello.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(hello.size());
}

// One message there and back; false: no echo in time.
bool echo(const Fd& fd, Clock::time_point deadline) {
  char message[kEchoBytes] = {};
  return ::send(fd.get(), message, sizeof message, MSG_NOSIGNAL) == sizeof message && receive(fd, message, deadline);
}

void measure_latency(const Fd& fd, ProbedAddress& result) {
  std::vector<double> times;
  const auto start = Clock::now();
  while (times.size() < kMaxEchoes && (times.empty() || Clock::now() < start + kEchoTime)) {
    const auto begin = Clock::now();
    if (!echo(fd, start + kEchoTimeout)) break;
    times.push_back(std::chrono::duration<double>(Clock::now() - begin).count() / 2);
  }
  if (times.empty()) {
    result.error = "connected, but what answers there is not our probe";
    return;
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  result.latency = times[times.size() / 2];
}

// The server counts what arrives. At the end what is still on its way is dropped, so that a slow link ends in time too.
bool send_load(const Fd& fd, Clock::duration time) {
  static const std::vector<char> zeros(std::size_t{256} << 10);
  const auto end = Clock::now() + time;
  while (Clock::now() < end) {
    if (::send(fd.get(), zeros.data(), zeros.size(), MSG_NOSIGNAL) >= 0) continue;
    if (errno != EAGAIN) return false;
    pollfd entry{fd.get(), POLLOUT, 0};
    ::poll(&entry, 1, milliseconds_to(end));
  }
  const linger drop{1, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &drop, sizeof drop);
  return true;
}

void measure_load(const std::string& token, std::size_t number, int port, Clock::duration time, ProbedAddress& result) {
  auto fd = begin_connection(result.address, port);
  result.loaded = fd && finish_connection(*fd, Clock::now() + kConnectTimeout) && send_hello(*fd, token, 'B', number) &&
                  send_load(*fd, time);
}

}  // namespace

std::vector<ProbedAddress> probe_addresses(const std::vector<std::string>& addresses, int port,
                                           const std::string& token, const std::vector<int>& load) {
  std::vector<ProbedAddress> results;
  std::vector<Fd> connections;
  for (std::size_t i = 0; i < std::min(addresses.size(), kMaxProbed); ++i) {
    results.push_back({.address = addresses[i]});
    auto fd = begin_connection(addresses[i], port);
    if (!fd) results.back().error = fd.error().message();
    connections.push_back(fd ? std::move(*fd) : Fd());
  }
  const auto deadline = Clock::now() + kConnectTimeout;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].error.empty()) continue;
    if (const Status made = finish_connection(connections[i], deadline); !made) {
      results[i].error = made.error().message();
    } else if (send_hello(connections[i], token, 'L', i)) {
      measure_latency(connections[i], results[i]);
    } else {
      results[i].error = "connected, but what answers there is not our probe";
    }
    connections[i] = Fd();
  }
  std::vector<std::size_t> loaded;
  for (const int number : load)
    if (number >= 0 && static_cast<std::size_t>(number) < results.size() &&
        results[static_cast<std::size_t>(number)].error.empty())
      loaded.push_back(static_cast<std::size_t>(number));
  for (const std::size_t i : loaded)
    measure_load(token, i, port, kLoadTime / static_cast<int>(loaded.size()), results[i]);
  return results;
}

}  // namespace xoe::doctor

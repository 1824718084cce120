#include "core/engine/telemetry/metrics_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <exception>
#include <utility>

#include "core/base/error.h"
#include "core/base/no_room.h"

namespace xoe::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxHead = 8192;

std::string answer(std::string_view status, std::string_view type, std::string_view body,
                   std::string_view header = {}) {
  return fmt::format("HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n{}", status,
                     type, body.size(), header, body);
}

std::string refusal(std::string_view status, std::string_view header = {}) {
  return answer(status, "text/plain", fmt::format("{}\n", status), header);
}

Result<Fd> listen_on(int port) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return failure(Code::kUnavailable, "metrics: cannot make a socket: {}", errno_text(errno));
  // A port whose last connections are in TIME_WAIT counts as free.
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool bound =
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 && ::listen(fd.get(), 8) == 0;
  if (bound) return fd;
  return failure(Code::kUnavailable,
                 "metrics: cannot listen on 127.0.0.1:{}: {}; choose another XOE_METRICS_PORT "
                 "(each rank takes that number plus its local rank)",
                 port, errno_text(errno));
}

int port_of(const Fd& fd) {
  sockaddr_in address = {};
  socklen_t length = sizeof(address);
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin_port);
}

// Waits until the client is ready for `events`. False: deadline passed, or the server ends.
bool await(const Fd& client, const Fd& stop, short events, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    std::array<pollfd, 2> fds = {pollfd{client.get(), events, 0}, pollfd{stop.get(), POLLIN, 0}};
    const int ready = ::poll(fds.data(), fds.size(), static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    return ready > 0 && fds[1].revents == 0;
  }
}

// Blocks all signals in the thread that `make` creates.
template <class Make>
void without_signals(Make&& make) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::forward<Make>(make)();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, ::tolower, ::tolower);
}

// A page from elsewhere, whose name its owner lets point here (DNS rebinding), says its own name. Clients of HTTP/1.0
// need not say any; browsers do.
bool for_this_host(std::string_view headers) {
  while (!headers.empty()) {
    const std::string_view line = headers.substr(0, headers.find("\r\n"));
    headers.remove_prefix(std::min(headers.size(), line.size() + 2));
    const auto colon = line.find(':');
    if (colon == std::string_view::npos || !equal_ignoring_case(line.substr(0, colon), "host")) continue;
    std::string_view name = line.substr(colon + 1);
    name.remove_prefix(std::min(name.find_first_not_of(" \t"), name.size()));
    name = name.substr(0, name.find_last_not_of(" \t") + 1);
    name = name.substr(0, name.find(':'));  // the port
    if (!equal_ignoring_case(name, "localhost") && name != "127.0.0.1") return false;
  }
  return true;
}

}  // namespace

std::string answer_metrics_request(std::string_view head, const MetricsServer::Text& text) {
  const std::string_view line = head.substr(0, head.find("\r\n"));
  const auto first = line.find(' ');
  const auto last = line.rfind(' ');
  if (first == std::string_view::npos || first == last || !line.substr(last + 1).starts_with("HTTP/1."))
    return refusal("400 Bad Request");
  std::string_view path = line.substr(first + 1, last - first - 1);
  path = path.substr(0, path.find('?'));
  if (path != "/metrics") return refusal("404 Not Found");
  if (line.substr(0, first) != "GET") return refusal("405 Method Not Allowed", "Allow: GET\r\n");
  if (!for_this_host(head.substr(std::min(head.size(), line.size() + 2))))
    return refusal("421 Misdirected Request (ask for localhost or 127.0.0.1)");
  try {
    return answer("200 OK", "text/plain; version=0.0.4; charset=utf-8", text());
  } catch (const std::exception&) {
    return refusal("500 Internal Server Error");
  }
}

Result<std::unique_ptr<MetricsServer>> MetricsServer::start(int port, Text text, std::chrono::milliseconds timeout) {
  if (port < 0 || port > 65535)
    return failure(Code::kInvalidArgument,
                   "metrics: there is no port {}; XOE_METRICS_PORT plus the local rank must be "
                   "65535 at most",
                   port);
  XOE_ASSIGN(Fd listener, listen_on(port));
  Fd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) return failure(Code::kUnavailable, "metrics: cannot make an eventfd: {}", errno_text(errno));
  const int bound = port_of(listener);
  try {
    return std::unique_ptr<MetricsServer>(
        new MetricsServer(std::move(listener), std::move(stop), bound, std::move(text), timeout));
  } catch (const std::exception& e) {
    return failure(Code::kResourceExhausted, "metrics: cannot start a thread: {}", e.what());
  }
}

MetricsServer::MetricsServer(Fd listener, Fd stop, int port, Text text, std::chrono::milliseconds timeout)
    : listener_(std::move(listener)),
      stop_(std::move(stop)),
      port_(port),
      text_(std::move(text)),
      timeout_(timeout),
      process_(::getpid()) {
  without_signals([this] { thread_ = std::jthread([this] { run(); }); });
}

MetricsServer::~MetricsServer() {
  if (::getpid() != process_) {
    thread_.detach();
    return;
  }
  const std::uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof(one));
}

void MetricsServer::run() {
  while (true) {
    std::array<pollfd, 2> fds = {pollfd{listener_.get(), POLLIN, 0}, pollfd{stop_.get(), POLLIN, 0}};
    if (::poll(fds.data(), fds.size(), -1) < 0) continue;
    if (fds[1].revents != 0) return;
    const Fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (client.valid()) {
      serve(client);
    } else if (is_no_room(errno)) {
      ::poll(&fds[1], 1, kNoRoomPause.count());
    }
  }
}

void MetricsServer::serve(const Fd& client) {
  const auto deadline = Clock::now() + timeout_;
  std::string head;
  std::array<char, 2048> block;
  while (head.find("\r\n\r\n") == std::string::npos) {
    if (head.size() > kMaxHead || !await(client, stop_, POLLIN, deadline)) return;
    const ssize_t got = ::recv(client.get(), block.data(), block.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return;
    head.append(block.data(), static_cast<std::size_t>(got));
  }
  const std::string whole = answer_metrics_request(head, text_);
  std::string_view rest = whole;
  while (!rest.empty()) {
    const ssize_t sent = ::send(client.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      rest.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno != EINTR && (errno != EAGAIN || !await(client, stop_, POLLOUT, deadline))) {
      return;
    }
  }
  // Closing with unread bytes would reset the connection, and the client might lose the answer.
  ::shutdown(client.get(), SHUT_WR);
  while (await(client, stop_, POLLIN, deadline) && ::recv(client.get(), block.data(), block.size(), 0) > 0) {
  }
}

}  // namespace xoe::engine

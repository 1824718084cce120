// Finds the largest packet that reaches another host.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <vector>

#include "core/base/fd.h"
#include "core/bootstrap/socket_address.h"
#include "launch/doctor/checks/container.h"

namespace xoe::doctor {
namespace {

using std::chrono::milliseconds;
constexpr std::uint16_t kDiscard = 9;  // no system serves it today
constexpr std::size_t kSmall = 64;
constexpr std::int64_t kMaxPacket = 65'535;
constexpr int kTries = 3;

enum class Answer : std::uint8_t { kNone, kClosed, kTooLarge };

class Probe {
 public:
  explicit Probe(const bootstrap::SocketAddress& peer)
      : ipv6_(peer.address()->sa_family == AF_INET6),
        socket_(::socket(peer.address()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    const int never = IP_PMTUDISC_DO;
    connected_ =
        socket_.valid() &&
        ::setsockopt(socket_.get(), level(), ipv6_ ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, &never, sizeof never) == 0 &&
        ::connect(socket_.get(), peer.address(), peer.size()) == 0;
  }

  bool connected() const { return connected_; }

  // As the kernel's route to the peer has it now; 0: not known.
  std::int64_t route_mtu() const {
    int mtu = 0;
    socklen_t size = sizeof mtu;
    if (::getsockopt(socket_.get(), level(), ipv6_ ? IPV6_MTU : IP_MTU, &mtu, &size) != 0) return 0;
    return mtu;
  }

  // The answer to a packet of so many bytes, headers included.
  Answer ask(std::size_t bytes, milliseconds timeout) {
    constexpr std::size_t kHeaders4 = 28, kHeaders6 = 48;
    const std::vector<char> data(bytes - (ipv6_ ? kHeaders6 : kHeaders4));
    for (int i = 0; i < kTries; ++i) {
      if (::send(socket_.get(), data.data(), data.size(), 0) < 0) {
        if (const Answer answer = answer_of(errno); answer != Answer::kNone) return answer;
        continue;
      }
      pollfd entry{.fd = socket_.get(), .events = POLLIN, .revents = 0};
      if (::poll(&entry, 1, static_cast<int>(timeout.count() / kTries)) <= 0) continue;
      int error = 0;
      socklen_t size = sizeof error;
      ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      if (const Answer answer = answer_of(error); answer != Answer::kNone) return answer;
    }
    return Answer::kNone;
  }

 private:
  int level() const { return ipv6_ ? IPPROTO_IPV6 : IPPROTO_IP; }
  static Answer answer_of(int error) {
    if (error == ECONNREFUSED) return Answer::kClosed;
    return error == EMSGSIZE ? Answer::kTooLarge : Answer::kNone;
  }

  bool ipv6_;
  Fd socket_;
  bool connected_ = false;
};

}  // namespace

PathMtu probe_path(const std::string& address, milliseconds timeout) {
  const auto peer = bootstrap::SocketAddress::tcp(address, kDiscard);
  if (!peer) return {};
  Probe probe(*peer);
  const std::int64_t first = probe.connected() ? std::min(probe.route_mtu(), kMaxPacket) : 0;
  if (first <= static_cast<std::int64_t>(kSmall)) return {};
  if (probe.ask(kSmall, timeout / 2) != Answer::kClosed) return {.mtu = first};
  switch (probe.ask(static_cast<std::size_t>(first), timeout / 2)) {
    case Answer::kClosed: return {.state = PathMtu::State::kReached, .mtu = first};
    case Answer::kTooLarge: return {.state = PathMtu::State::kSmaller, .mtu = probe.route_mtu()};
    case Answer::kNone: break;
  }
  // An earlier connection may have taught the kernel what this one has just learned.
  const std::int64_t now = probe.route_mtu();
  return {.state = now < first ? PathMtu::State::kSmaller : PathMtu::State::kLost, .mtu = now};
}

}  // namespace xoe::doctor

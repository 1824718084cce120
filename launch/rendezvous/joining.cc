#include "launch/rendezvous/joining.h"

#include <poll.h>

#include <algorithm>
#include <csignal>
#include <optional>

#include "core/base/error.h"
#include "core/base/text.h"
#include "launch/rendezvous/find_address.h"
#include "launch/rendezvous/rendezvous_server.h"

namespace xoe::launch {
namespace {

using Clock = std::chrono::steady_clock;

// Of one attempt: a signal is answered after it.
constexpr auto kNameTimeout = std::chrono::seconds(5);
constexpr auto kConnectTimeout = std::chrono::seconds(2);
constexpr auto kFirstPause = std::chrono::milliseconds(50);
constexpr auto kLongestPause = std::chrono::milliseconds(500);
// The job that was there before, or another one, may be about to end.
constexpr auto kWrongSecretTimeout = std::chrono::seconds(30);

// The first signal that ends the wait; 0: none within the pause.
int signal_within(SignalSource& signals, std::chrono::milliseconds pause) {
  const auto until = Clock::now() + pause;
  while (true) {
    while (const auto signal = signals.next())
      if (*signal == SIGINT || *signal == SIGTERM || *signal == SIGQUIT || *signal == SIGHUP) return *signal;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return 0;
    pollfd entry{.fd = signals.fd(), .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, static_cast<int>(left));
  }
}

Result<MetLeader> try_once(const Membership& member, const std::string& secret, const remote::Inherited& inherited) {
  XOE_ASSIGN(const auto addresses, find_addresses(member.leader, member.port, inherited, kNameTimeout));
  std::optional<Error> why;
  for (const bootstrap::SocketAddress& at : addresses) {
    const std::string address = at.text();
    auto connection = bootstrap::connect_member(
        {.self = member.index, .address = address, .secret = secret, .waits = false, .name = kRendezvousName},
        Clock::now() + kConnectTimeout);
    if (connection) return MetLeader{.connection = std::move(*connection), .address = at.host()};
    why.emplace(connection.error().code(),
                fmt::format("{} ({}): {}", member.leader, address, connection.error().message()));
    if (why->code() == Code::kInvalidArgument) break;
  }
  return tl::unexpected(*why);
}

}  // namespace

Result<MetLeader> meet_leader(const Membership& member, const std::string& secret, const remote::Inherited& inherited,
                              SignalSource& signals, Clock::time_point began, std::chrono::nanoseconds timeout,
                              const std::function<void(const std::string& line)>& say) {
  auto progress = began + kWaitingEvery;
  auto not_wrong = Clock::now();  // when it was last another reason than the secret
  for (auto pause = std::chrono::milliseconds(kFirstPause);;
       pause = std::min<std::chrono::milliseconds>(2 * pause, kLongestPause)) {
    auto met = try_once(member, secret, inherited);
    if (met) return met;
    const std::string& why = met.error().message();
    const auto now = Clock::now();
    const bool wrong = met.error().code() == Code::kInvalidArgument;
    if (!wrong) not_wrong = now;
    if (wrong && (now - not_wrong >= kWrongSecretTimeout || now - began >= timeout))
      return failure(Code::kInvalidArgument, "member 0: {}; all members need the same secret", why);
    if (now - began >= timeout)
      return failure(Code::kUnavailable, "member 0 was not there within {} (--rendezvous-timeout): {}",
                     human_seconds(timeout), why);
    if (now >= progress) {
      progress = now + kWaitingEvery;
      say(fmt::format("waits for member 0 since {}: {}",
                      human_seconds(std::chrono::round<std::chrono::seconds>(now - began)), why));
    }
    if (const int signal = signal_within(signals, pause); signal != 0) return MetLeader{.signal = signal};
  }
}

}  // namespace xoe::launch

// Member 0 of a rendezvous: waits until all others have joined.
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/bootstrap/member_connection.h"
#include "launch/agents/agent_startup.h"
#include "launch/remote/host_failure.h"
#include "launch/rendezvous/membership.h"
#include "launch/supervise/signal_source.h"

namespace xoe::launch {

// How often a member that waits says for whom.
inline constexpr auto kWaitingEvery = std::chrono::seconds(10);

// Both ends prove that they join this, and not something else that has the same secret.
inline constexpr std::string_view kRendezvousName = "xoe rendezvous 1";

// Listens from its making to its end, at all addresses of this host. Connections that do not prove to be a member's
// learn nothing; their number, their bytes and their time are limited, and they hold up no member.
class RendezvousServer {
 public:
  using Say = std::function<void(const std::string& line)>;
  // `version`: of this Xoe. `unavailable`: the port is taken.
  static Result<std::unique_ptr<RendezvousServer>> listen(const Membership& membership, const std::string& secret,
                                                          const std::string& version, Say say);

  // All other members, or, where members come and go, those that have joined soon after there were enough; in their
  // order, with different names. A failure names the members that are missing, or what is
  // wrong with one; those that are there have been told. Its exit code is 128 + the signal when `signals` has one.
  tl::expected<std::vector<JoinedHost>, remote::HostFailure> run(std::chrono::nanoseconds timeout,
                                                                 SignalSource& signals);

  // After run(), before and after poll(): members that join later, or again.
  void add_to(std::vector<pollfd>& polled);
  std::vector<JoinedHost> pump(const std::vector<pollfd>& polled);
  static void refuse(remote::AgentConnection& agent, const remote::HostFailure& why);

 private:
  using Clock = std::chrono::steady_clock;
  RendezvousServer(Fd listener, const Membership& membership, const std::string& secret, std::string version, Say say);
  void admit(int member, bootstrap::MemberConnection connection);
  void wait(SignalSource& signals);
  bool enough(Clock::time_point now);
  std::vector<JoinedHost> take_greeted();
  void serve(std::size_t member, Clock::time_point now);
  void on_hello(std::size_t member, std::string_view text);
  void fail(const remote::HostFailure& failure);
  std::string missing_text() const;
  std::size_t joined() const;
  tl::unexpected<remote::HostFailure> give_up();

  const Membership& membership_;
  const std::string version_;
  const Say say_;
  std::vector<JoinedHost> hosts_;  // by member; the first one, and those that are missing, have no agent
  std::vector<bool> greeted_;
  std::vector<std::string> names_;  // by member, once it was taken
  std::size_t counted_ = 0;         // members, when one joined last
  Clock::time_point counted_at_ = {};
  std::size_t first_ = 0, entries_ = 0;  // ours in `polled`
  remote::HostFailure failure_ = {.lines = {}, .exit_code = 0};
  bootstrap::MemberAcceptor acceptor_;
  std::vector<pollfd> polled_;
};

}  // namespace xoe::launch

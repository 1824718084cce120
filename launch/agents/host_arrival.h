// One host that comes while the job runs, from the start of its agent until ranks can be started there.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launch/plan/hosts_plan.h"
#include "launch/remote/host_failure.h"

namespace xoe::launch {

class HostArrival {
 public:
  using Clock = std::chrono::steady_clock;
  enum class State : std::uint8_t { kConnecting, kPreparing, kReady, kFailed };
  // `job`: the host's part of it, as encode() writes it. `connect` outlives this.
  HostArrival(HostShare share, std::unique_ptr<remote::AgentConnection> agent, std::string version, std::string job,
              const remote::ConnectOptions& connect);

  const HostShare& share() const noexcept { return share_; }
  State state() const noexcept { return state_; }
  // Why it failed.
  const remote::HostFailure& failure() const noexcept { return failure_; }
  // Of a host that is ready, whose agent has started no rank yet, or of one that joined and failed.
  std::unique_ptr<remote::AgentConnection> take_agent() { return std::move(agent_); }

  // Before and after poll().
  void add_to(std::vector<pollfd>& polled);
  void pump(const std::vector<pollfd>& polled, Clock::time_point now);
  // Of one whose hello has been taken already.
  void on_greeted();
  Clock::time_point deadline() const noexcept { return deadline_; }
  void cancel();

 private:
  void on_frame(const remote::Frame& frame);
  void on_hello(std::string_view text);
  void fail(remote::HostFailure failure);

  HostShare share_;
  std::unique_ptr<remote::AgentConnection> agent_;
  std::string version_;
  std::string job_;
  const remote::ConnectOptions& connect_;
  Clock::time_point deadline_;
  State state_ = State::kConnecting;
  remote::HostFailure failure_ = {.lines = {}};
};

}  // namespace xoe::launch

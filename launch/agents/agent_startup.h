// Starts a job on all its hosts: no rank starts anywhere before all hosts are ready.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/bootstrap/store_service.h"
#include "launch/plan/hosts_plan.h"
#include "launch/remote/host_failure.h"
#include "launch/supervise/signal_source.h"

namespace xoe::launch {

struct StartedAgents {
  remote::AgentConnections agents;   // in the order of the plan's shares
  std::vector<bool> there;           // those whose hosts are ready: all, unless the job may begin without some
  std::vector<std::string> missing;  // for the user: why others are not
  std::unique_ptr<bootstrap::StoreService> store;
};

// An agent that joined by itself, and has greeted.
struct JoinedHost {
  std::unique_ptr<remote::AgentConnection> agent;
  remote::Hello hello = {};
};

// The pre-flight's facts about one host.
struct HostCheck {
  std::string name;
  std::string hostname;
  int cores = 0;
  int ranks = 0;
  std::string program;                   // path there
  std::string locality;                  // what --bind-to numa went by there; empty: nothing
  std::chrono::nanoseconds answered{};   // since the start
  std::chrono::nanoseconds clock{};      // ahead of ours
  std::chrono::nanoseconds clock_err{};  // bound of its error
};

class AgentStartup {
 public:
  // `inherited`: for the shells. `joined`: those hosts of the plan, in its order. All references outlive this.
  AgentStartup(const RunOptions& options, const HostsPlan& plan, const remote::Inherited& inherited,
               SignalSource& signals, std::vector<JoinedHost> joined = {});

  // `start` false: the pre-flight, which checks every host even after failures and starts no rank.
  tl::expected<StartedAgents, remote::HostFailure> run(bool start);
  // After a failure, those that are connected: to be disconnected.
  const remote::AgentConnections& agents() const noexcept { return agents_; }
  // The checks of the hosts that became ready.
  const std::vector<HostCheck>& checks() const noexcept { return checks_; }
  int interrupted_by() const noexcept { return interrupted_by_; }
  // Whether all that failed are hosts that could not be reached, or were lost: they may be there in a while.
  bool only_unreachable() const noexcept { return only_unreachable_; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase : std::uint8_t { kConnecting, kGreeted, kPreparing, kReady, kFailed };
  struct Progress {
    Phase phase = Phase::kConnecting;
    remote::Hello hello = {};
    Clock::time_point asked = {};  // when the job was sent
    std::int64_t asked_clock = 0;
  };

  Status connect_all();
  void wait();
  void serve(std::size_t host, Clock::time_point now);
  void on_frame(std::size_t host, const remote::Frame& frame);
  void on_hello(std::size_t host, std::string_view text);
  void on_ready(std::size_t host, const remote::Frame& frame);
  Status send_jobs();
  void fail(std::size_t host, const remote::HostFailure& failure);
  void drop(std::size_t host, const remote::HostFailure& failure);
  void fail_behind(std::size_t host);
  void time_out();
  bool enough() const;
  std::size_t count(Phase phase) const;

  const RunOptions& options_;
  const remote::ConnectOptions& connect_;
  const HostsPlan& plan_;
  const remote::Inherited& inherited_;
  SignalSource& signals_;
  std::vector<JoinedHost> joined_;
  Clock::time_point began_ = Clock::now();
  Clock::time_point deadline_;
  bool all_ = false;       // check every host even after a failure
  bool may_miss_ = false;  // the job can begin without some
  remote::AgentConnections agents_;
  std::vector<Progress> progress_;
  std::unique_ptr<bootstrap::StoreService> store_;
  std::vector<pollfd> polled_;
  remote::HostFailure failure_ = {.lines = {}, .exit_code = 0};
  std::vector<HostCheck> checks_;
  int interrupted_by_ = 0;
  bool only_unreachable_ = true;
};

}  // namespace xoe::launch

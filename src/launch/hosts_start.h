// Brings a job up on all its hosts: nothing is started anywhere before everything is ready everywhere.
#pragma once

#include <sys/resource.h>

#include <memory>
#include <string>
#include <vector>

#include "bootstrap/store_service.h"
#include "launch/host_failure.h"
#include "launch/hosts_plan.h"
#include "launch/signal_source.h"

namespace xoe::launch {

struct StartedHosts {
  HostLinks links;
  std::unique_ptr<bootstrap::StoreService> store;
};

// What the pre-flight saw of one host.
struct HostCheck {
  std::string name;
  std::string hostname;
  int cores = 0;
  int ranks = 0;
  std::string program;                   // path there
  std::string near;                      // what --bind-to numa went by there; empty: nothing
  std::chrono::nanoseconds answered{};   // from the start
  std::chrono::nanoseconds clock{};      // ahead of ours
  std::chrono::nanoseconds clock_err{};  // at most so far off
};

class HostsStart {
 public:
  HostsStart(const RunOptions& options, const HostsPlan& plan, const Env& env, SignalSource& signals,
             const rlimit& open_files);

  // With `start` false everything but the last word: the pre-flight, which looks at every host even after failures.
  tl::expected<StartedHosts, HostFailure> run(bool start);
  // Of the hosts that were ready.
  const std::vector<HostCheck>& checks() const noexcept { return checks_; }
  int interrupted_by() const noexcept { return interrupted_by_; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stage : std::uint8_t { kConnecting, kGreeted, kPreparing, kReady, kFailed };
  struct Progress {
    Stage stage = Stage::kConnecting;
    AgentHello hello = {};
    Clock::time_point asked = {};  // when the job was sent
    std::int64_t asked_clock = 0;
  };

  Status connect_all();
  void wait();
  void look_at(std::size_t host, Clock::time_point now);
  void on_frame(std::size_t host, const AgentFrame& frame);
  void on_hello(std::size_t host, std::string_view text);
  void on_ready(std::size_t host, const AgentFrame& frame);
  Status send_jobs();
  void fail(std::size_t host, const HostFailure& failure);
  void drop(std::size_t host, const HostFailure& failure);
  void fail_behind(std::size_t host);
  void give_up_on_the_rest();
  std::size_t count(Stage stage) const;

  const RunOptions& options_;
  const HostsPlan& plan_;
  const Env& env_;
  SignalSource& signals_;
  rlimit open_files_;
  Clock::time_point began_ = Clock::now();
  Clock::time_point deadline_;
  bool all_;  // look at every host even after a failure
  HostLinks links_;
  std::vector<Progress> progress_;
  std::unique_ptr<bootstrap::StoreService> store_;
  std::vector<pollfd> polled_;
  HostFailure failure_ = {.lines = {}, .exit_code = 0};
  std::vector<HostCheck> checks_;
  int interrupted_by_ = 0;
};

}  // namespace xoe::launch

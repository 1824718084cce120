// The agent on one host: starts that host's ranks and supervises them while the launcher is connected.
#pragma once

#include <poll.h>

#include <optional>
#include <string>
#include <vector>

#include "bootstrap/status_page.h"
#include "launch/agents/agent_streams.h"
#include "launch/plan/job_plan.h"
#include "launch/supervise/signal_source.h"
#include "launch/supervise/supervisor_link.h"
#include "remote/frame_connection.h"
#include "remote/relay.h"

namespace xoe::launch {

// It is connected with the launcher by its standard input and output alone. When they close, or are silent for too
// long, it kills its ranks and ends. For `xoe doctor` it becomes the doctor's probe.
class Agent {
 public:
  // `inherited`: for the ranks.
  Agent(remote::FrameConnection launcher, SignalSource signals, remote::Inherited inherited);
  // Returns when no process of the job is left here.
  void run(const std::string& version);

 private:
  using Clock = std::chrono::steady_clock;

  void send_hello(const std::string& version);
  void wait();
  void check_launcher(Clock::time_point now);
  void on_frame(const remote::Frame& frame);
  void prepare(std::string_view text);
  Status prepare_job(std::string_view text, std::string& program);
  void start();
  void on_signals();
  void on_supervisor();
  void send_status(Clock::time_point now);
  void finish_output(Clock::time_point now);
  void kill_all();
  void restart(int rank);
  void become_probe();
  void refuse(const Error& error, int exit_code);
  bool done(Clock::time_point now) const;

  remote::FrameConnection launcher_;
  SignalSource signals_;
  remote::Inherited inherited_;
  std::optional<AgentJob> job_;
  std::optional<JobPlan> plan_;
  std::optional<bootstrap::StatusPage> status_;  // where the launcher shows a panel
  Clock::time_point status_due_ = {};
  std::optional<SupervisorLink> supervisor_;
  AgentStreams streams_;
  remote::Relay relay_;
  std::vector<pollfd> polled_;
  std::chrono::nanoseconds timeout_;
  bool paused_ = false;     // the launcher announced that it will be silent
  bool gone_ = false;       // all processes of the job
  bool ended_ = false;      // the last frame is queued
  bool abandoned_ = false;  // the launcher is gone or silent
  std::optional<Clock::time_point> killed_at_;
};

// `xoe agent`, over descriptors 0 and 1. Returns its exit code.
int run_agent(const std::string& version);

}  // namespace xoe::launch

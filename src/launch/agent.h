// The launcher's hand on one host: starts that host's ranks and looks after them for as long as the launcher is there.
#pragma once

#include <poll.h>

#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "launch/agent_plan.h"
#include "launch/agent_relay.h"
#include "launch/agent_streams.h"
#include "launch/frame_pipe.h"
#include "launch/guardian_link.h"
#include "launch/signal_source.h"

namespace xoe::launch {

// Its standard input and output are all that connects it with the launcher, and all that keeps it alive: when they
// close, or are silent for too long, it kills its ranks and ends.
class Agent {
 public:
  // `open_files`: the limit, as it was: what ranks get.
  Agent(FramePipe launcher, SignalSource signals, Env env, const rlimit& open_files);
  // Returns when nothing of the job is left here.
  void run(const std::string& version);

 private:
  using Clock = std::chrono::steady_clock;

  void say_hello(const std::string& version);
  void wait();
  void look_after_launcher(Clock::time_point now);
  void on_frame(const AgentFrame& frame);
  void prepare(std::string_view text);
  Status prepare_job(std::string_view text, std::string& program);
  void start();
  void on_signals();
  void on_guardian();
  void finish_output(Clock::time_point now);
  void kill_all();
  void restart(int rank);
  void refuse(const Error& error, int exit_code);
  bool done(Clock::time_point now) const;

  FramePipe launcher_;
  SignalSource signals_;
  Env env_;
  rlimit open_files_;
  std::optional<AgentJob> job_;
  std::optional<JobPlan> plan_;
  std::optional<GuardianLink> guardian_;
  AgentStreams streams_;
  AgentRelay relay_;
  std::vector<pollfd> polled_;
  std::chrono::nanoseconds timeout_;
  bool paused_ = false;  // the launcher said that it will be silent
  bool gone_ = false;    // all processes of the job
  bool ended_ = false;   // the last frame is under way
  bool abandoned_ = false;
  std::optional<Clock::time_point> killed_at_;
};

// `xoe agent`, to its end, over descriptors 0 and 1. Returns the exit code.
int run_agent(const std::string& version);

}  // namespace xoe::launch

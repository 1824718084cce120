// The agent on one host: starts that host's ranks and supervises them while the launcher is connected.
#pragma once

#include <poll.h>

#include <optional>
#include <string>
#include <vector>

#include "core/bootstrap/status_page.h"
#include "core/bootstrap/world_page.h"
#include "launch/agents/agent_streams.h"
#include "launch/agents/departure_watch.h"
#include "launch/output/output.h"
#include "launch/plan/job_plan.h"
#include "launch/remote/frame_connection.h"
#include "launch/remote/relay.h"
#include "launch/supervise/signal_source.h"
#include "launch/supervise/supervisor_link.h"

namespace xoe::launch {

// An agent that joined its launcher by itself, in a process that the user, or a scheduler, started on its host.
struct JoinedAgent {
  std::string launcher = {};  // the launcher's address, as this host sees it
  int ranks = 0;              // that it is told to run
  Output* output = nullptr;   // of this process: the ranks' output goes there, too, as the options say
  const RunOptions* options = nullptr;
};

// It is connected with the launcher by its standard input and output alone, or by a connection that it made. When that
// closes, or is silent for too long, it kills its ranks and ends. For `xoe doctor` it becomes the doctor's probe.
class Agent {
 public:
  // `inherited`: for the ranks. `signals` outlives this.
  Agent(remote::FrameConnection launcher, SignalSource& signals, remote::Inherited inherited,
        std::optional<JoinedAgent> joined = {});
  // Returns when no process of the job is left here.
  void run(const std::string& version);
  // After run(), of an agent that joined: nullopt, if the launcher was lost, or a signal came before the job began.
  const std::optional<remote::Outcome>& told() const noexcept { return told_; }
  bool started() const noexcept { return supervisor_.has_value(); }  // ranks
  // The first signal that asked this process to end; 0: none.
  int signalled() const noexcept { return signalled_; }

 private:
  using Clock = std::chrono::steady_clock;

  void send_hello(const std::string& version);
  void wait();
  void check_launcher(Clock::time_point now);
  void abandon(Clock::time_point now);
  void on_frame(const remote::Frame& frame);
  void prepare(std::string_view text);
  Status prepare_job(std::string_view text, std::string& program);
  void start();
  void on_signals();
  void pass_on(int signal);
  void on_supervisor();
  void report();
  void send_reported();
  void send_status(Clock::time_point now);
  void finish_output(Clock::time_point now);
  // To the supervisor, while there are processes of the job.
  void command(const SupervisorCommand& command);
  void kill_all();
  void to_rank(std::int64_t rank, SupervisorCommand told);
  void publish_world(const remote::Frame& frame);
  Status make_pages();
  void watch_departure();
  bool is_departure(int signal);
  void depart(std::chrono::milliseconds left, const std::string& why);
  void become_probe();
  void refuse(const Error& error, int exit_code);
  bool done(Clock::time_point now) const;

  remote::FrameConnection launcher_;
  SignalSource& signals_;
  remote::Inherited inherited_;
  const std::optional<JoinedAgent> joined_;
  std::optional<remote::Outcome> told_;
  int signalled_ = 0;
  std::optional<AgentJob> job_;
  std::optional<JobPlan> plan_;
  std::optional<bootstrap::StatusPage> status_;  // where the launcher shows a panel
  Clock::time_point next_status_ = {};
  std::optional<bootstrap::WorldPage> world_;  // where the number of ranks changes
  std::optional<DepartureWatch> departure_;
  bool departing_ = false;  // the launcher was told
  std::optional<Clock::time_point> terminated_at_;
  std::optional<SupervisorLink> supervisor_;
  AgentStreams streams_;
  remote::Relay relay_;
  std::vector<pollfd> polled_;
  std::chrono::nanoseconds timeout_;
  bool reports_ = false;    // the launcher waits for kReported
  bool paused_ = false;     // the launcher announced that it will be silent
  bool gone_ = false;       // all processes of the job
  bool ended_ = false;      // the last frame is queued
  bool abandoned_ = false;  // the launcher is gone or silent
  std::optional<Clock::time_point> killed_at_;
};

// `xoe agent`, over descriptors 0 and 1. Returns its exit code.
int run_agent(const std::string& version);

}  // namespace xoe::launch

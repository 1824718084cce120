// The connection to the agent on one host: the remote shell, the agent's frames, and the shell's stderr.
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/remote/frame_connection.h"
#include "launch/remote/launch_method.h"
#include "launch/remote/spawn.h"

namespace xoe::remote {

// Either a child process of this program, or one of another host's agent, a relay, which carries its bytes in frames,
// or a process that connected to this one, which has neither a shell nor stderr.
// One thread at a time; the caller blocks or ignores SIGPIPE.
class AgentConnection {
 public:
  using Clock = std::chrono::steady_clock;
  AgentConnection(const AgentConnection&) = delete;
  AgentConnection& operator=(const AgentConnection&) = delete;
  virtual ~AgentConnection() = default;

  const std::string& host() const noexcept { return host_; }
  // Once it is known, or to tell it from another one.
  void rename(std::string host) { host_ = std::move(host); }
  LaunchMethod method() const noexcept { return method_; }
  // The agent that reaches this host; nullptr: this program does.
  const AgentConnection* relay() const noexcept { return relay_; }
  bool is_behind(const AgentConnection& relay) const;
  FrameConnection& frames() noexcept { return frames_; }
  const FrameConnection& frames() const noexcept { return frames_; }

  // Starts the shell on the relay, whose agent has greeted.
  virtual void open() {}
  // Before and after poll().
  virtual void add_to(std::vector<pollfd>& /*polled*/) {}
  virtual void pump(const std::vector<pollfd>& /*polled*/) {}
  // A frame of the relay's agent about this host.
  virtual void on_relay_frame(const Frame& /*frame*/) {}
  // Sends what is queued.
  virtual void write() = 0;
  // Nothing more will come in; the shell's stderr and exit status are then as complete as they will get.
  bool ended(Clock::time_point now);
  // For how long nothing came in. It does not grow while the relay is silent itself.
  std::chrono::nanoseconds silence(Clock::time_point now) const;
  // Stops listening. The agent sees the end of its input and ends.
  virtual void hang_up() = 0;
  // Ends the shell too.
  virtual void kill() = 0;

  // The last 4 KiB that the shell wrote to stderr.
  const std::string& stderr_tail() const noexcept { return stderr_tail_; }
  virtual const std::optional<int>& status() const noexcept = 0;  // of wait()

 protected:
  AgentConnection(std::string host, LaunchMethod method, const AgentConnection* relay, FrameConnection frames)
      : host_(std::move(host)), method_(method), relay_(relay), frames_(std::move(frames)) {}
  void add_stderr(std::string_view bytes);
  // Reads what is left of the shell's stderr.
  virtual void drain_stderr() {}

 private:
  std::string host_;
  LaunchMethod method_;
  const AgentConnection* relay_;
  FrameConnection frames_;
  std::string stderr_tail_;
  std::optional<Clock::time_point> closed_at_;
};

// A relay stands before the hosts behind it.
using AgentConnections = std::vector<std::unique_ptr<AgentConnection>>;

// Starts the agent through a child process of this one. `unavailable` names the host.
Result<std::unique_ptr<AgentConnection>> connect_agent(const std::string& host, LaunchMethod method,
                                                       const ConnectOptions& options, const Inherited& inherited);

// Will start the agent through the one of `relay`, which outlives this, when open() is called. `number`: its index
// among all connections. `hosts`: how many are reached through it, and itself.
std::unique_ptr<AgentConnection> connect_behind(AgentConnection& relay, const std::string& host, LaunchMethod method,
                                                const ConnectOptions& options, std::size_t number, std::size_t hosts);

// The agent of `host` that connected to this program.
std::unique_ptr<AgentConnection> joined_agent(const std::string& host, FrameConnection frames);

// Hands a frame of `relay` that is about a host behind it to that host's connection; false: it is about `relay` itself.
bool dispatch_relay_frame(const AgentConnections& agents, const AgentConnection& relay, const Frame& frame);

// Waits until something comes in, or for the deadline, and moves the bytes of all.
void poll_agents(const AgentConnections& agents, AgentConnection::Clock::time_point deadline);

// Tells agents that joined how it ended, and waits a moment until they have hung up. Others are left alone.
void tell_outcome(const AgentConnections& agents, const std::function<Outcome(std::size_t agent)>& outcome);

// Hangs up on all, waits a moment for their shells to end, and kills the rest.
void disconnect_all(const AgentConnections& agents);

}  // namespace xoe::remote

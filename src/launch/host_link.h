// The launcher's end of one host: the remote shell, the agent behind it, and what both say.
#pragma once

#include <poll.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/frame_pipe.h"
#include "launch/remote_shell.h"

namespace xoe::launch {

// One host's part of a job, as the launcher plans it.
struct HostShare {
  Host host = {};
  Way way = Way::kSsh;
  std::vector<AgentRank> ranks = {};      // by local rank
  std::optional<std::size_t> relay = {};  // the share whose agent reaches this host; none: the launcher does
};

// Either a process of the launcher's (ShellLink) or one of an agent's, which relays its bytes (RelayedLink).
class HostLink {
 public:
  using Clock = std::chrono::steady_clock;
  HostLink(const HostLink&) = delete;
  HostLink& operator=(const HostLink&) = delete;
  virtual ~HostLink() = default;

  const HostShare& share() const noexcept { return share_; }
  const std::string& name() const noexcept { return share_.host.name; }
  // The host whose agent reaches this one; nullptr: the launcher does.
  const HostLink* relay() const noexcept { return relay_; }
  FramePipe& pipe() noexcept { return pipe_; }
  const FramePipe& pipe() const noexcept { return pipe_; }

  // Starts the shell on the relay, whose agent has greeted.
  virtual void open() {}
  // Around poll(), the second with what it found.
  virtual void add_to(std::vector<pollfd>& /*polled*/) {}
  virtual void pump(const std::vector<pollfd>& /*polled*/) {}
  // What the relay's agent says of this host.
  virtual void take(const AgentFrame& /*frame*/) {}
  // Passes on what the pipe has to say.
  virtual void write() = 0;
  // Nothing more will come; by then the shell's last words and its end are known if they ever will be.
  bool over(Clock::time_point now);
  // For how long nothing was heard of it. Behind a relay that is silent itself this time does not go on.
  std::chrono::nanoseconds silence(Clock::time_point now) const;
  // Stops listening. The agent sees the end of its input and ends.
  virtual void hang_up() = 0;
  // Ends the shell too.
  virtual void kill() = 0;

  // What the shell wrote to stderr: its last 4 KiB.
  const std::string& said() const noexcept { return said_; }
  virtual const std::optional<int>& status() const noexcept = 0;  // of wait()

 protected:
  HostLink(HostShare share, const HostLink* relay, FramePipe pipe)
      : share_(std::move(share)), relay_(relay), pipe_(std::move(pipe)) {}
  void add_words(std::string_view words);
  // What the shell said until now and is not read yet.
  virtual void read_last_words() {}

 private:
  HostShare share_;
  const HostLink* relay_;
  FramePipe pipe_;
  std::string said_;
  std::optional<Clock::time_point> closed_at_;
};

// In the order of their shares: a relay stands before the hosts behind it.
using HostLinks = std::vector<std::unique_ptr<HostLink>>;

// Gives the host that it is about what the agent of `relay` says; false: it is about `relay` itself.
bool pass_on(const HostLinks& links, const HostLink& relay, const AgentFrame& frame);

bool is_behind(const HostLink& link, const HostLink& relay);

// Waits for the shells of all that were hung up to end, and kills those that do not.
void part_from(HostLinks& links);

}  // namespace xoe::launch

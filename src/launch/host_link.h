// The launcher's end of one host: the remote shell, the agent behind it, and what both say.
#pragma once

#include <poll.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/fd.h"
#include "launch/frame_pipe.h"
#include "launch/remote_shell.h"
#include "xoe/status.h"

namespace xoe::launch {

// One host's part of a job, as the launcher plans it.
struct HostShare {
  Host host = {};
  Way way = Way::kSsh;
  std::vector<AgentRank> ranks = {};  // by local rank
};

class HostLink {
 public:
  using Clock = std::chrono::steady_clock;
  // `mask` and `open_files`: as they were before this program changed them.
  static Result<HostLink> start(HostShare share, const std::vector<std::string>& command, const Env& env,
                                const sigset_t& mask, const rlimit& open_files);
  HostLink(HostLink&&) = default;
  HostLink& operator=(HostLink&&) = delete;
  ~HostLink();

  const HostShare& share() const noexcept { return share_; }
  const std::string& name() const noexcept { return share_.host.name; }
  FramePipe& pipe() noexcept { return pipe_; }
  const FramePipe& pipe() const noexcept { return pipe_; }

  // Around poll(), the second with what it found.
  void add_to(std::vector<pollfd>& polled);
  void pump(const std::vector<pollfd>& polled);
  // Nothing more will come; by then the shell's last words and its end are known if they ever will be.
  bool over(Clock::time_point now);
  // Stops listening. The agent sees the end of its input and ends.
  void hang_up();
  // Ends the shell too.
  void kill();

  // What the shell wrote to stderr: its last 4 KiB.
  const std::string& said() const noexcept { return said_; }
  const std::optional<int>& status() const noexcept { return status_; }  // of wait()

 private:
  HostLink(HostShare share, FramePipe pipe, Fd errors, pid_t pid, Fd pidfd)
      : share_(std::move(share)),
        pipe_(std::move(pipe)),
        errors_(std::move(errors)),
        pid_(pid),
        pidfd_(std::move(pidfd)) {}
  void read_errors();
  void reap();

  HostShare share_;
  FramePipe pipe_;
  Fd errors_;
  pid_t pid_;
  Fd pidfd_;
  std::string said_;
  std::optional<int> status_;
  std::optional<Clock::time_point> closed_at_;
  std::size_t first_ = 0;  // of our four entries in `polled`
};

// Waits for the shells of all that were hung up to end, and kills those that do not.
void part_from(std::vector<HostLink>& links);

}  // namespace xoe::launch

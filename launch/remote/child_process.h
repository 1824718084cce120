// A child process with a pipe for each of its standard streams: a remote shell, or whatever else leads to an agent.
#pragma once

#include <sys/types.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "launch/remote/spawn.h"
#include "xoe/status.h"

namespace xoe::remote {

struct StartedChild;

// Killed, with its process group, when it is destroyed before it ended. One thread at a time.
class ChildProcess {
 public:
  // `unavailable`: there is no such program, or it cannot be started. The child has a process group of its own: Ctrl-C
  // at the terminal must not cut the connection over which it is passed on.
  static Result<StartedChild> start(const std::vector<std::string>& command, const Inherited& inherited);
  ChildProcess(ChildProcess&&) = default;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  int fd() const noexcept { return pidfd_.get(); }  // readable when it has ended; -1 after reap() saw that
  void reap();
  void kill();
  const std::optional<int>& status() const noexcept { return status_; }  // of wait()

 private:
  ChildProcess(pid_t pid, Fd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}

  pid_t pid_;
  Fd pidfd_;
  std::optional<int> status_;
};

// Our ends of its pipes; they do not block.
struct StartedChild {
  ChildProcess process;
  Fd in;
  Fd out;
  Fd err;
};

// The two ends of a pipe, the reading end first.
Result<std::array<Fd, 2>> open_pipe();
void set_nonblocking(const Fd& fd);

// Both work on descriptors that do not block.
// Reads once and closes the descriptor at its end. Empty when there is nothing now.
std::string read_some(Fd& from);
// Writes as much as the descriptor takes now and removes that from `bytes`. Closes the descriptor, and drops the rest,
// when its reader is gone. The caller blocks or ignores SIGPIPE.
void write_some(Fd& to, std::string& bytes);

}  // namespace xoe::remote

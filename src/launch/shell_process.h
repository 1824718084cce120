// A remote shell, or whatever else leads to an agent: a process with a pipe for each of its standard streams.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/fd.h"
#include "xoe/status.h"

namespace xoe::launch {

struct StartedShell;

// Killed, with what is in its process group, when it is destroyed before it ended.
class ShellProcess {
 public:
  // `mask` and `open_files`: as they were before this program changed them.
  static Result<StartedShell> start(const std::vector<std::string>& command, const Env& env, const sigset_t& mask,
                                    const rlimit& open_files);
  ShellProcess(ShellProcess&&) = default;
  ShellProcess& operator=(ShellProcess&&) = delete;
  ~ShellProcess();

  int fd() const noexcept { return pidfd_.get(); }  // readable when it has ended; -1 after reap() saw that
  void reap();
  void kill();
  const std::optional<int>& status() const noexcept { return status_; }  // of wait()

 private:
  ShellProcess(pid_t pid, Fd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}

  pid_t pid_;
  Fd pidfd_;
  std::optional<int> status_;
};

// Our ends of its pipes, which do not block.
struct StartedShell {
  ShellProcess process;
  Fd in;
  Fd out;
  Fd err;
};

// Reads once from a descriptor that does not block, and closes it at its end. Empty when there is nothing now.
std::string read_some(Fd& from);

}  // namespace xoe::launch

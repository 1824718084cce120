// Starts one process, without copying this one.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <optional>
#include <vector>

#include "base/fd.h"
#include "xoe/status.h"

namespace xoe::launch {

struct SpawnRequest {
  const char* path = nullptr;
  char* const* argv = nullptr;
  char* const* shell_argv =
      nullptr;  // /bin/sh path arguments: for a script without a first line that names its program
  char* const* envp = nullptr;
  int in = -1;
  int out = -1;
  int err = -1;
  std::optional<cpu_set_t> cpus = {};
  sigset_t signal_mask = {};
  rlimit open_files = {};
};

struct Spawned {
  pid_t pid = -1;
  Fd pidfd;  // readable when the process has ended
};

// The child leads a process group of its own and is killed when the calling thread ends. Its descriptors other
// than 0-2 are the inheritable ones of the caller. On failure the errno of the call that failed.
tl::expected<Spawned, int> spawn(const SpawnRequest& request);

}  // namespace xoe::launch

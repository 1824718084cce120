// Starts one process, without copying this one.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "core/base/env.h"
#include "core/base/fd.h"
#include "xoe/status.h"

namespace xoe::remote {

// Passed on to children: this process's variables, signal mask and limit on open files, as they were before it changed
// them for itself.
struct Inherited {
  Env env = {};
  sigset_t mask = {};
  rlimit open_files = {};
  // env: if the caller has read it already, or does not pass it on.
  static Inherited current(Env env = Env::process());
};

struct SpawnRequest {
  const char* path = nullptr;
  char* const* argv = nullptr;
  // /bin/sh path arguments: for a script without a first line that names its program
  char* const* shell_argv = nullptr;
  char* const* envp = nullptr;
  int in = -1;
  int out = -1;
  int err = -1;
  std::optional<cpu_set_t> cpus = {};
  sigset_t signal_mask = {};
  rlimit open_files = {};
  int ignored_signal = 0;  // besides those that this process ignores; 0: none
};

struct Spawned {
  pid_t pid = -1;
  Fd pidfd;  // readable when the process has ended
};

// The child leads a process group of its own and is killed when the calling thread ends. Its descriptors other
// than 0-2 are the inheritable ones of the caller. On failure the errno of the call that failed.
tl::expected<Spawned, int> spawn(const SpawnRequest& request);

// For execve, which takes char* for historical reasons and changes nothing: the strings and a null pointer. Valid for
// as long as `words`.
std::vector<char*> c_strings(const std::vector<std::string>& words);
// The arguments of a shell that runs `path` as a script with argv[1] and later arguments.
std::vector<char*> script_arguments(const std::string& path, const std::vector<char*>& argv);

// "was killed by SIGSEGV (segmentation fault)", "exited with code 3"; `status` is that of wait().
std::string describe_status(int status);
// As a shell has it: the exit code, or 128 + the signal.
int exit_code_of(int status);

// Raises this process's limit on open files so that it can have `children` children with their pipes.
// `resource_exhausted` names the limit. Returns the limit as it was.
Result<rlimit> allow_open_files(int children);

}  // namespace xoe::remote

#include "launch/spawn.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <memory>

namespace xoe::launch {
namespace {

constexpr std::size_t kStackBytes = std::size_t{64} << 10;

struct ChildStart {
  const SpawnRequest& request;
  pid_t parent;
  int error = 0;
};

// Runs in the memory of the parent, which stands still meanwhile: only calls that are safe there.
int run_child(void* argument) {
  auto& start = *static_cast<ChildStart*>(argument);
  const SpawnRequest& request = start.request;
  const auto fail = [&start] {
    start.error = errno;
    ::_exit(127);
    return 127;
  };
  if (::setpgid(0, 0) != 0 || ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return fail();
  // The parent may have died before the line above.
  if (::getppid() != start.parent) ::_exit(127);
  if (::dup2(request.in, 0) < 0 || ::dup2(request.out, 1) < 0 || ::dup2(request.err, 2) < 0) return fail();
  if (request.cpus && ::sched_setaffinity(0, sizeof *request.cpus, &*request.cpus) != 0) return fail();
  if (::setrlimit(RLIMIT_NOFILE, &request.open_files) != 0) return fail();
  ::sigprocmask(SIG_SETMASK, &request.signal_mask, nullptr);
  ::execve(request.path, request.argv, request.envp);
  if (errno == ENOEXEC) ::execve("/bin/sh", request.shell_argv, request.envp);
  return fail();
}

}  // namespace

tl::expected<Spawned, int> spawn(const SpawnRequest& request) {
  ChildStart start{.request = request, .parent = ::getpid()};
  const auto stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  int pidfd = -1;
  const pid_t pid =
      ::clone(run_child, stack.get() + kStackBytes, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &start, &pidfd);
  if (pid < 0) return tl::unexpected(errno);
  Spawned spawned{.pid = pid, .pidfd = Fd(pidfd)};
  if (start.error == 0) return spawned;
  ::waitpid(pid, nullptr, 0);
  return tl::unexpected(start.error);
}

}  // namespace xoe::launch

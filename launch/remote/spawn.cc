#include "launch/remote/spawn.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <memory>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::remote {
namespace {

constexpr std::size_t kStackBytes = std::size_t{64} << 10;

struct ChildStart {
  const SpawnRequest& request;
  pid_t parent;
  int error = 0;
};

// Runs in the memory of the parent, which waits meanwhile: only calls that are safe there.
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
  if (request.ignored_signal != 0) ::signal(request.ignored_signal, SIG_IGN);
  ::sigprocmask(SIG_SETMASK, &request.signal_mask, nullptr);
  ::execve(request.path, request.argv, request.envp);
  if (errno == ENOEXEC) ::execve("/bin/sh", request.shell_argv, request.envp);
  return fail();
}

}  // namespace

tl::expected<Spawned, int> spawn(const SpawnRequest& request) {
  ChildStart start{.request = request, .parent = ::getpid()};
  const auto stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  std::byte* const top = stack.get() + kStackBytes;
  constexpr int kFlags = CLONE_VM | CLONE_VFORK | SIGCHLD;
  int pidfd = -1;
  pid_t pid = ::clone(run_child, top, kFlags | CLONE_PIDFD, &start, &pidfd);
  if (pid < 0 && errno == EINVAL) {
    // Where qemu runs programs of another processor, it does not know CLONE_PIDFD. Filters of old container runtimes
    // refuse pidfd_open(), so it comes second. Until the child is waited for, the number is its own.
    pid = ::clone(run_child, top, kFlags, &start);
    if (pid >= 0) pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  }
  if (pid < 0) return tl::unexpected(errno);
  Spawned spawned{.pid = pid, .pidfd = Fd(pidfd)};
  if (!spawned.pidfd.valid() && start.error == 0) {
    start.error = errno;
    ::kill(pid, SIGKILL);
  }
  if (start.error == 0) return spawned;
  ::waitpid(pid, nullptr, 0);
  return tl::unexpected(start.error);
}

Inherited Inherited::current(Env env) {
  Inherited now{.env = std::move(env)};
  ::sigprocmask(SIG_SETMASK, nullptr, &now.mask);
  ::getrlimit(RLIMIT_NOFILE, &now.open_files);
  return now;
}

std::vector<char*> c_strings(const std::vector<std::string>& words) {
  std::vector<char*> all;
  all.reserve(words.size() + 1);
  for (const std::string& word : words) all.push_back(const_cast<char*>(word.c_str()));
  all.push_back(nullptr);
  return all;
}

std::vector<char*> script_arguments(const std::string& path, const std::vector<char*>& argv) {
  static char shell[] = "/bin/sh";
  std::vector<char*> all{shell, const_cast<char*>(path.c_str())};
  all.insert(all.end(), argv.begin() + 1, argv.end());
  return all;
}

std::string describe_status(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("exited with code {}", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  const char* core = WCOREDUMP(status) ? ", core dumped" : "";
  const char* name = ::sigabbrev_np(signal);
  if (name == nullptr) return fmt::format("was killed by signal {}{}", signal, core);
  std::string meaning = ::sigdescr_np(signal);
  if (meaning.size() > 1 && std::isupper(static_cast<unsigned char>(meaning[1])) == 0)
    meaning[0] = static_cast<char>(::tolower(meaning[0]));
  return fmt::format("was killed by SIG{} ({}){}", name, meaning, core);
}

int exit_code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

Result<rlimit> allow_open_files(int children) {
  rlimit before = {};
  if (::getrlimit(RLIMIT_NOFILE, &before) != 0) return failure(Code::kInternal, "getrlimit: {}", errno_text(errno));
  // Two pipes, two files, stdin, a pidfd, and a few connections to the store for each rank.
  const auto needed = rlim_t{12} * static_cast<rlim_t>(children) + 64;
  if (before.rlim_cur >= needed) return before;
  rlimit raised = before;
  raised.rlim_cur = needed;
  if (needed > before.rlim_max || ::setrlimit(RLIMIT_NOFILE, &raised) != 0)
    return failure(Code::kResourceExhausted, "{} open files are needed for {}, the limit is {} (ulimit -n)", needed,
                   counted(children, "rank"), before.rlim_max);
  return before;
}

}  // namespace xoe::remote

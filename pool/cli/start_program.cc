#include "pool/cli/start_program.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "launch/remote/spawn.h"

namespace xoe::tools::pool {
namespace {

// Of a program that could not be put into its cgroup.
constexpr int kNoRule = 125;

}  // namespace

Result<pid_t> start_program(const std::vector<std::string>& program, const sigset_t& mask, int passed,
                            const xoe::pool::DeviceRule* rule) {
  std::vector<char*> argv = remote::c_strings(program);
  int failed[2];
  if (::pipe2(failed, O_CLOEXEC) != 0) return failure(Code::kUnavailable, "no pipe: {}", errno_text(errno));
  const Fd in(failed[0]);
  Fd out(failed[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return failure(Code::kUnavailable, "cannot start {}: {}", program[0], errno_text(errno));
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // without its lease it must not go on
    if (::getppid() != parent) ::_exit(127);
    if (rule != nullptr && !rule->enter()) ::_exit(kNoRule);
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);
    if (passed >= 0) ::fcntl(passed, F_SETFD, 0);
    std::signal(SIGPIPE, SIG_DFL);
    std::signal(SIGXFSZ, SIG_DFL);
    ::execvp(argv[0], argv.data());
    const int error = errno;
    [[maybe_unused]] const auto written = ::write(failed[1], &error, sizeof error);
    ::_exit(127);
  }
  out = Fd();
  int error = 0;
  if (::read(in.get(), &error, sizeof error) != sizeof error) return pid;
  ::waitpid(pid, nullptr, 0);
  return failure(Code::kInvalidArgument, "cannot start {}: {}", program[0], errno_text(error));
}

}  // namespace xoe::tools::pool

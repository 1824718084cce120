#include "pool/cli/detached_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/error.h"

namespace xoe::tools::pool {

Status start_detached(std::function<void()> run) {
  const pid_t pid = ::fork();
  if (pid < 0) return failure(Code::kUnavailable, "cannot start a process: {}", errno_text(errno));
  if (pid == 0) {
    if (::fork() == 0) run();
    ::_exit(0);
  }
  ::waitpid(pid, nullptr, 0);
  return {};
}

}  // namespace xoe::tools::pool

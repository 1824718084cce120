#include "launch/supervise/start_supervisor.h"

#include <unistd.h>

#include "launch/supervise/supervisor.h"

namespace xoe::launch {

pid_t start_supervisor(const SupervisorStart& start) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  for (const int fd : start.closed) ::close(fd);
  Supervisor(Fd(start.control), start.requests, start.restarts, start.first).run();
  ::_exit(0);
}

}  // namespace xoe::launch

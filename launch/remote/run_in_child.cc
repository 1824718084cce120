#include "launch/remote/run_in_child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "launch/remote/child_process.h"

namespace xoe::remote {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMaxBytes = std::size_t{4} << 20;
constexpr auto kGrace = std::chrono::milliseconds(500);

[[noreturn]] void run_work(int out, pid_t parent, const std::function<std::string()>& work) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const int nothing = ::open("/dev/null", O_RDWR);
  for (const int fd : {0, 1, 2}) ::dup2(nothing, fd);
  const std::string text = work();
  std::size_t written = 0;
  while (written < text.size()) {
    const auto count = ::write(out, text.data() + written, text.size() - written);
    if (count <= 0) ::_exit(1);
    written += static_cast<std::size_t>(count);
  }
  // Without destructors: those of foreign libraries have crashed programs that were done.
  ::_exit(0);
}

// Reads until the child closes its end; false: too late or too much.
bool read_all(int fd, Clock::time_point deadline, std::string& text) {
  char chunk[16384];
  while (text.size() <= kMaxBytes) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    if (left <= 0) return false;
    if (::poll(&entry, 1, static_cast<int>(left)) <= 0) continue;
    const auto count = ::read(fd, chunk, sizeof chunk);
    if (count <= 0) return count == 0;
    text.append(chunk, static_cast<std::size_t>(count));
  }
  return false;
}

// A child that hangs within a driver cannot be killed: after the grace it is left to the kernel, and this returns
// nullopt.
std::optional<int> wait_for(pid_t child, Clock::time_point deadline) {
  int status = 0;
  while (true) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) return status;
    if (ended < 0 || Clock::now() >= deadline) return std::nullopt;
    ::usleep(1000);
  }
}

}  // namespace

Result<std::string> run_in_child(const std::function<std::string()>& work, std::chrono::milliseconds timeout) {
  XOE_ASSIGN(auto pipe, open_pipe());
  Fd& in = pipe[0];
  Fd& out = pipe[1];
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return failure(Code::kResourceExhausted, "cannot start a process: {}", errno_text(errno));
  if (child == 0) run_work(out.get(), parent, work);
  out = Fd();
  std::string text;
  const bool complete = read_all(in.get(), Clock::now() + timeout, text);
  if (!complete) ::kill(child, SIGKILL);
  const auto status = wait_for(child, Clock::now() + kGrace);
  if (!complete) return failure(Code::kTimeout, "no answer within {} ms", timeout.count());
  if (!status) {
    ::kill(child, SIGKILL);
    wait_for(child, Clock::now() + kGrace);
    return failure(Code::kTimeout, "it answered but did not end");
  }
  if (WIFSIGNALED(*status)) return failure(Code::kInternal, "it crashed: {}", ::strsignal(WTERMSIG(*status)));
  if (WEXITSTATUS(*status) != 0) return failure(Code::kInternal, "it ended with code {}", WEXITSTATUS(*status));
  return text;
}

}  // namespace xoe::remote

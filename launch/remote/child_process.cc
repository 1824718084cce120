#include "launch/remote/child_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/error.h"
#include "launch/remote/program.h"

namespace xoe::remote {

Result<StartedChild> ChildProcess::start(const std::vector<std::string>& command, const Inherited& inherited) {
  XOE_ASSIGN(const std::string path, find_program(command.front(), inherited.env));
  XOE_ASSIGN(auto in, open_pipe());
  XOE_ASSIGN(auto out, open_pipe());
  XOE_ASSIGN(auto err, open_pipe());
  std::vector<std::string> variables;
  for (const auto& [name, value] : inherited.env.all()) variables.push_back(fmt::format("{}={}", name, value));
  const auto argv = c_strings(command);
  const auto envp = c_strings(variables);
  const auto shell_argv = script_arguments(path, argv);
  auto spawned = spawn({.path = path.c_str(),
                        .argv = argv.data(),
                        .shell_argv = shell_argv.data(),
                        .envp = envp.data(),
                        .in = in[0].get(),
                        .out = out[1].get(),
                        .err = err[1].get(),
                        .signal_mask = inherited.mask,
                        .open_files = inherited.open_files});
  if (!spawned) return failure(Code::kUnavailable, "cannot start {}: {}", path, errno_text(spawned.error()));
  for (const Fd* end : {&in[1], &out[0], &err[0]}) set_nonblocking(*end);
  return StartedChild{.process = ChildProcess(spawned->pid, std::move(spawned->pidfd)),
                      .in = std::move(in[1]),
                      .out = std::move(out[0]),
                      .err = std::move(err[0])};
}

ChildProcess::~ChildProcess() {
  if (!pidfd_.valid()) return;  // moved from, or reaped
  kill();
  ::waitpid(pid_, nullptr, 0);
}

void ChildProcess::reap() {
  int status = 0;
  if (!pidfd_.valid() || ::waitpid(pid_, &status, WNOHANG) != pid_) return;
  status_ = status;
  pidfd_ = Fd();
}

void ChildProcess::kill() {
  if (pidfd_.valid()) ::kill(-pid_, SIGKILL);
}

Result<std::array<Fd, 2>> open_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return failure(Code::kResourceExhausted, "cannot make a pipe: {}", errno_text(errno));
  return std::array{Fd(ends[0]), Fd(ends[1])};
}

void set_nonblocking(const Fd& fd) { ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK); }

std::string read_some(Fd& from) {
  std::array<char, std::size_t{64} << 10> chunk;
  const auto count = ::read(from.get(), chunk.data(), chunk.size());
  if (count > 0) return {chunk.data(), static_cast<std::size_t>(count)};
  if (count == 0 || (errno != EAGAIN && errno != EINTR)) from = Fd();
  return {};
}

void write_some(Fd& to, std::string& bytes) {
  std::size_t written = 0;
  while (to.valid() && written < bytes.size()) {
    const auto count = ::write(to.get(), bytes.data() + written, bytes.size() - written);
    if (count >= 0)
      written += static_cast<std::size_t>(count);
    else if (errno == EAGAIN)
      break;
    else if (errno != EINTR)
      to = Fd();
  }
  bytes.erase(0, to.valid() ? written : bytes.size());
}

}  // namespace xoe::remote

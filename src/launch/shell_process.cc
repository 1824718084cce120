#include "launch/shell_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "base/error.h"
#include "launch/job_streams.h"
#include "launch/program.h"
#include "launch/spawn.h"

namespace xoe::launch {
namespace {

// The C strings of execve, which takes char* for historical reasons and changes nothing.
std::vector<char*> c_strings(const std::vector<std::string>& words) {
  std::vector<char*> all;
  for (const std::string& word : words) all.push_back(const_cast<char*>(word.c_str()));
  all.push_back(nullptr);
  return all;
}

}  // namespace

Result<StartedShell> ShellProcess::start(const std::vector<std::string>& command, const Env& env, const sigset_t& mask,
                                         const rlimit& open_files) {
  XOE_ASSIGN(const std::string path, find_program(command.front(), env));
  XOE_ASSIGN(auto in, open_pipe());
  XOE_ASSIGN(auto out, open_pipe());
  XOE_ASSIGN(auto err, open_pipe());
  std::vector<std::string> variables;
  for (const auto& [name, value] : env.all()) variables.push_back(fmt::format("{}={}", name, value));
  const auto argv = c_strings(command);
  const auto envp = c_strings(variables);
  const std::string shell = "/bin/sh";
  std::vector<char*> shell_argv{const_cast<char*>(shell.c_str()), const_cast<char*>(path.c_str())};
  shell_argv.insert(shell_argv.end(), argv.begin() + 1, argv.end());
  // In a process group of its own: Ctrl-C at the terminal must not cut the way on which it is passed on.
  auto spawned = spawn({.path = path.c_str(),
                        .argv = argv.data(),
                        .shell_argv = shell_argv.data(),
                        .envp = envp.data(),
                        .in = in[0].get(),
                        .out = out[1].get(),
                        .err = err[1].get(),
                        .signal_mask = mask,
                        .open_files = open_files});
  if (!spawned) return failure(Code::kUnavailable, "cannot start {}: {}", path, errno_text(spawned.error()));
  for (const Fd* end : {&in[1], &out[0], &err[0]}) ::fcntl(end->get(), F_SETFL, O_NONBLOCK);
  return StartedShell{.process = ShellProcess(spawned->pid, std::move(spawned->pidfd)),
                      .in = std::move(in[1]),
                      .out = std::move(out[0]),
                      .err = std::move(err[0])};
}

ShellProcess::~ShellProcess() {
  if (!pidfd_.valid()) return;  // moved from, or reaped
  kill();
  int status = 0;
  ::waitpid(pid_, &status, 0);
}

void ShellProcess::reap() {
  int status = 0;
  if (!pidfd_.valid() || ::waitpid(pid_, &status, WNOHANG) != pid_) return;
  status_ = status;
  pidfd_ = Fd();
}

void ShellProcess::kill() {
  if (pidfd_.valid()) ::kill(-pid_, SIGKILL);
}

std::string read_some(Fd& from) {
  std::array<char, std::size_t{64} << 10> chunk;
  const auto count = ::read(from.get(), chunk.data(), chunk.size());
  if (count > 0) return {chunk.data(), static_cast<std::size_t>(count)};
  if (count == 0 || (errno != EAGAIN && errno != EINTR)) from = Fd();
  return {};
}

}  // namespace xoe::launch

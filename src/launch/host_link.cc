#include "launch/host_link.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "base/error.h"
#include "launch/job_streams.h"
#include "launch/program.h"
#include "launch/spawn.h"

namespace xoe::launch {
namespace {

constexpr std::size_t kSaidBytes = 4096;
// Between the end of the pipe and that of the shell.
constexpr auto kShellPatience = std::chrono::seconds(1);
constexpr auto kPartPatience = std::chrono::milliseconds(1500);

// The C strings of execve, which takes char* for historical reasons and changes nothing.
std::vector<char*> c_strings(const std::vector<std::string>& words) {
  std::vector<char*> all;
  for (const std::string& word : words) all.push_back(const_cast<char*>(word.c_str()));
  all.push_back(nullptr);
  return all;
}

}  // namespace

Result<HostLink> HostLink::start(HostShare share, const std::vector<std::string>& command, const Env& env,
                                 const sigset_t& mask, const rlimit& open_files) {
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
  if (!spawned)
    return failure(Code::kUnavailable, "host {}: cannot start {}: {}", share.host.name, path,
                   errno_text(spawned.error()));
  ::fcntl(err[0].get(), F_SETFL, O_NONBLOCK);
  return HostLink(std::move(share), FramePipe(std::move(out[0]), std::move(in[1]), true), std::move(err[0]),
                  spawned->pid, std::move(spawned->pidfd));
}

HostLink::~HostLink() {
  if (!pidfd_.valid()) return;  // moved from, or reaped
  kill();
  int status = 0;
  ::waitpid(pid_, &status, 0);
}

void HostLink::add_to(std::vector<pollfd>& polled) {
  first_ = polled.size();
  polled.push_back({.fd = pipe_.in(), .events = POLLIN, .revents = 0});
  polled.push_back({.fd = pipe_.wants_to_write() ? pipe_.out() : -1, .events = POLLOUT, .revents = 0});
  polled.push_back({.fd = errors_.get(), .events = POLLIN, .revents = 0});
  polled.push_back({.fd = pidfd_.get(), .events = POLLIN, .revents = 0});
}

void HostLink::pump(const std::vector<pollfd>& polled) {
  if (polled[first_].revents != 0) pipe_.read();
  if (polled[first_ + 1].revents != 0) pipe_.write();
  if (polled[first_ + 2].revents != 0) read_errors();
  if (polled[first_ + 3].revents != 0) reap();
}

void HostLink::read_errors() {
  std::array<char, 4096> chunk;
  const auto count = ::read(errors_.get(), chunk.data(), chunk.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    errors_ = Fd();
    return;
  }
  said_.append(chunk.data(), static_cast<std::size_t>(count));
  if (said_.size() > kSaidBytes) said_.erase(0, said_.size() - kSaidBytes);
}

void HostLink::reap() {
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return;
  status_ = status;
  pidfd_ = Fd();
}

bool HostLink::over(Clock::time_point now) {
  if (!pipe_.closed()) return false;
  if (!closed_at_) closed_at_ = now;
  while (errors_.valid()) {
    pollfd entry{.fd = errors_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, 0) != 1) break;
    read_errors();
  }
  if (status_) return true;
  return now - *closed_at_ >= kShellPatience;
}

void HostLink::hang_up() { pipe_.close(); }

void HostLink::kill() {
  pipe_.close();
  if (pidfd_.valid()) ::kill(-pid_, SIGKILL);
}

void part_from(std::vector<HostLink>& links) {
  const auto deadline = HostLink::Clock::now() + kPartPatience;
  for (HostLink& link : links) link.hang_up();
  std::vector<pollfd> polled;
  while (HostLink::Clock::now() < deadline) {
    polled.clear();
    for (HostLink& link : links) link.add_to(polled);
    if (std::ranges::all_of(links, [](const HostLink& link) { return link.status().has_value(); })) return;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - HostLink::Clock::now()).count();
    ::poll(polled.data(), polled.size(), static_cast<int>(std::max<std::int64_t>(0, left)));
    for (HostLink& link : links) link.pump(polled);
  }
  for (HostLink& link : links) link.kill();
}

}  // namespace xoe::launch

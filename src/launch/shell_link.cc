#include "launch/shell_link.h"

#include "base/error.h"

namespace xoe::launch {

Result<std::unique_ptr<HostLink>> ShellLink::start(HostShare share, const std::vector<std::string>& command,
                                                   const Env& env, const sigset_t& mask, const rlimit& open_files) {
  auto shell = ShellProcess::start(command, env, mask, open_files);
  if (!shell) return failure(Code::kUnavailable, "host {}: {}", share.host.name, shell.error().message());
  return std::unique_ptr<HostLink>(new ShellLink(std::move(share), std::move(*shell)));
}

ShellLink::ShellLink(HostShare share, StartedShell shell)
    : HostLink(std::move(share), nullptr, FramePipe(std::move(shell.out), std::move(shell.in), true)),
      process_(std::move(shell.process)),
      errors_(std::move(shell.err)) {}

void ShellLink::add_to(std::vector<pollfd>& polled) {
  first_ = polled.size();
  polled.push_back({.fd = pipe().in(), .events = POLLIN, .revents = 0});
  polled.push_back({.fd = pipe().wants_to_write() ? pipe().out() : -1, .events = POLLOUT, .revents = 0});
  polled.push_back({.fd = errors_.get(), .events = POLLIN, .revents = 0});
  polled.push_back({.fd = process_.fd(), .events = POLLIN, .revents = 0});
}

void ShellLink::pump(const std::vector<pollfd>& polled) {
  if (polled[first_].revents != 0) pipe().read();
  if (polled[first_ + 1].revents != 0) pipe().write();
  if (polled[first_ + 2].revents != 0) add_words(read_some(errors_));
  if (polled[first_ + 3].revents != 0) process_.reap();
}

void ShellLink::read_last_words() {
  while (errors_.valid()) {
    const std::string words = read_some(errors_);
    if (words.empty()) break;
    add_words(words);
  }
}

void ShellLink::kill() {
  pipe().close();
  process_.kill();
}

}  // namespace xoe::launch

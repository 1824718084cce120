#include "launch/supervise/supervisor_link.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <thread>

#include "core/base/error.h"
#include "launch/remote/children.h"
#include "launch/supervise/start_supervisor.h"

namespace xoe::launch {

Result<SupervisorLink> SupervisorLink::start(std::vector<remote::SpawnRequest> requests,
                                             std::span<const int> not_inherited, bool restarts, std::size_t first) {
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0)
    return failure(Code::kResourceExhausted, "cannot make a socket: {}", errno_text(errno));
  Fd here(pair[0]);
  Fd there(pair[1]);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::vector<pid_t> older;
  siginfo_t info = {};
  if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0) older = remote::children_of_this_process();

  std::vector<int> closed(not_inherited.begin(), not_inherited.end());
  closed.push_back(here.get());
  const pid_t pid = start_supervisor(
      {.control = there.get(), .closed = closed, .requests = requests, .restarts = restarts, .first = first});
  if (pid < 0) return failure(Code::kResourceExhausted, "cannot start a process: {}", errno_text(errno));
  return SupervisorLink(std::move(here), pid, std::move(older));
}

void SupervisorLink::send(SupervisorCommand command) { ::send(control_.get(), &command, sizeof command, MSG_NOSIGNAL); }

std::optional<SupervisorEvent> SupervisorLink::next() {
  if (gone_) return std::nullopt;
  SupervisorEvent event;
  if (lost_) {
    gone_ = true;
    return event;
  }
  auto count = ::recv(control_.get(), &event, sizeof event, MSG_DONTWAIT);
  // It ended without reading our last command. Its events are still there, behind this error.
  if (count < 0 && errno == ECONNRESET) count = ::recv(control_.get(), &event, sizeof event, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (count != sizeof event) return on_lost();
  if (event.kind == SupervisorEvent::Kind::kAllGone) {
    gone_ = true;
    ::waitpid(pid_, nullptr, 0);
  }
  return event;
}

SupervisorEvent SupervisorLink::on_lost() {
  lost_ = true;
  const auto now = std::chrono::steady_clock::now();
  ::kill(pid_, SIGKILL);
  // Its connection closes before its children come to this process, which they have when it can be waited for.
  ::waitpid(pid_, nullptr, 0);
  kill_adopted();
  return {.kind = SupervisorEvent::Kind::kSupervisorLost, .at = now};
}

// Round after round, as the supervisor does it: a killed process leaves its children to this one.
void SupervisorLink::kill_adopted() {
  for (int round = 0; round < 500; ++round) {
    auto adopted = remote::children_of_this_process();
    std::erase_if(adopted,
                  [this](pid_t pid) { return std::ranges::find(older_children_, pid) != older_children_.end(); });
    if (adopted.empty()) return;
    for (const pid_t pid : adopted) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, WNOHANG);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace xoe::launch

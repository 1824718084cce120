#include "launch/supervise/supervisor.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "launch/remote/children.h"
#include "launch/supervise/first_fault.h"

namespace xoe::launch {
namespace {

constexpr auto kKillTimeout = std::chrono::seconds(10);
// The status of a rank that could not be reaped: exit code 255, a failure.
constexpr int kUnknownStatus = 255 << 8;

}  // namespace

Supervisor::Supervisor(Fd control, std::vector<remote::SpawnRequest> requests, bool restarts, std::size_t first)
    : control_(std::move(control)),
      requests_(std::move(requests)),
      restarts_(restarts),
      first_(std::min(first, requests_.size())),
      ended_(::epoll_create1(EPOLL_CLOEXEC)) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_NAME, "xoe-supervisor");
  // Out of reach of the terminal and of signals to the launcher's process group. Ranks are process groups of
  // this session, so their parent is in it: that is what lets SIGTSTP stop them.
  ::setsid();
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  child_signal_ = Fd(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
}

void Supervisor::run() {
  if (!start_all()) return kill_all();
  while (true) {
    std::array<pollfd, 3> entries{pollfd{.fd = ended_.get(), .events = POLLIN, .revents = 0},
                                  pollfd{.fd = child_signal_.get(), .events = POLLIN, .revents = 0},
                                  pollfd{.fd = control_.get(), .events = POLLIN, .revents = 0}};
    ::poll(entries.data(), entries.size(), -1);
    reap_ranks();
    const bool childless = reap_orphans();
    if (childless && !restarts_) return report({.kind = SupervisorEvent::Kind::kAllGone});
    if (entries[2].revents == 0) continue;
    if (!handle_commands()) return kill_all();
    if (childless && !restarts_) return report({.kind = SupervisorEvent::Kind::kAllGone});
  }
}

bool Supervisor::start_all() {
  ranks_.resize(requests_.size());
  bool started = true;
  for (std::size_t i = 0; i < first_ && started; ++i) started = start(i);
  if (!restarts_ || !started) close_streams();
  return started;
}

bool Supervisor::start(std::size_t rank) {
  Rank& one = ranks_[rank];
  one.started = Clock::now();
  one.asked = false;
  auto spawned = remote::spawn(requests_[rank]);
  if (!spawned) {
    report({.kind = SupervisorEvent::Kind::kStartFailed, .rank = static_cast<int>(rank), .value = spawned.error()});
    return false;
  }
  one.pid = one.group = spawned->pid;
  one.pidfd = std::move(spawned->pidfd);
  epoll_event event{.events = EPOLLIN, .data = {.u64 = rank}};
  ::epoll_ctl(ended_.get(), EPOLL_CTL_ADD, one.pidfd.get(), &event);
  return true;
}

// Processes that its predecessor left running would be in its way.
void Supervisor::restart(const SupervisorCommand& command) {
  const auto rank = static_cast<std::size_t>(command.rank);
  if (!restarts_ || rank >= ranks_.size() || ranks_[rank].pid > 0) return;
  if (ranks_[rank].group > 0) ::kill(-ranks_[rank].group, SIGKILL);
  if (command.device[0] != '\0') give_device(rank, command.device.data());
  ranks_[rank].exiting.reset();
  failed_ = false;
  start(rank);
}

// The number of a process group whose last process is killed may soon be another's.
void Supervisor::signal_rank(std::size_t rank, int signal) {
  Rank& one = ranks_[rank];
  if (one.group <= 0) return;
  ::kill(-one.group, signal);
  if (one.pid > 0 || signal != SIGKILL) return;
  one.group = -1;
  failed_ = false;  // the others may go on without it: the next failure is a first one
}

void Supervisor::give_device(std::size_t rank, const char* device) {
  constexpr std::string_view kName = "CUDA_VISIBLE_DEVICES=";
  Rank& one = ranks_[rank];
  std::vector<char*> environment;
  for (char* const* entry = requests_[rank].envp; *entry != nullptr; ++entry)
    if (!std::string_view(*entry).starts_with(kName)) environment.push_back(*entry);
  one.device = std::string(kName) + device;
  environment.push_back(one.device.data());
  environment.push_back(nullptr);
  one.environment = std::move(environment);
  requests_[rank].envp = one.environment.data();
}

// Only the ranks may hold the writing ends, so that the launcher sees the end of their output.
void Supervisor::close_streams() {
  std::vector<int> open;
  for (const remote::SpawnRequest& request : requests_) open.insert(open.end(), {request.in, request.out, request.err});
  std::ranges::sort(open);
  open.erase(std::unique(open.begin(), open.end()), open.end());
  for (const int fd : open)
    if (fd > 2) ::close(fd);
  for (const int fd : {0, 1, 2}) ::close(fd);
}

bool Supervisor::handle_commands() {
  SupervisorCommand command;
  const auto count = ::recv(control_.get(), &command, sizeof command, MSG_DONTWAIT);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count != sizeof command || command.kind == SupervisorCommand::Kind::kKillAll) return false;
  switch (command.kind) {
    case SupervisorCommand::Kind::kRestart: restart(command); break;
    case SupervisorCommand::Kind::kSignalRank:
      if (const auto rank = static_cast<std::size_t>(command.rank); rank < ranks_.size())
        signal_rank(rank, command.signal);
      break;
    case SupervisorCommand::Kind::kNoMoreRestarts:
      if (std::exchange(restarts_, false)) close_streams();
      break;
    case SupervisorCommand::Kind::kReport:
      reap_ranks();
      report({.kind = SupervisorEvent::Kind::kReported});
      break;
    case SupervisorCommand::Kind::kEnd:
      note_asked();
      signal_all(SIGTERM);
      signal_all(SIGCONT);
      break;
    default: signal_all(command.signal);
  }
  return true;
}

void Supervisor::reap_ranks() {
  epoll_event event;
  while (::epoll_wait(ended_.get(), &event, 1, 0) == 1) reap(static_cast<std::size_t>(event.data.u64));
}

void Supervisor::reap(std::size_t rank) {
  Rank& ended = ranks_[rank];
  const auto now = Clock::now();
  int status = 0;
  const pid_t pid = std::exchange(ended.pid, -1);
  if (::waitpid(pid, &status, 0) != pid) status = kUnknownStatus;
  ::epoll_ctl(ended_.get(), EPOLL_CTL_DEL, ended.pidfd.get(), nullptr);
  ended.pidfd = Fd();
  if (status != 0 && !std::exchange(failed_, true)) look_for_exiting(now);
  report({.kind = SupervisorEvent::Kind::kEnded,
          .rank = static_cast<int>(rank),
          .pid = pid,
          .value = status,
          .ran = now - ended.started,
          .asked = ended.asked,
          .at = may_answer({.end = RankEnd{.status = status}}) ? now : ended.exiting.value_or(now)});
}

// A rank that was killed closes its connections a while before it has ended. A peer that notices may be faster.
void Supervisor::look_for_exiting(Clock::time_point first_failure) {
  for (Rank& rank : ranks_)
    if (rank.pid > 0 && remote::is_exiting(rank.pid)) rank.exiting = first_failure - std::chrono::nanoseconds(1);
}

bool Supervisor::reap_orphans() {
  signalfd_siginfo drained;
  while (::read(child_signal_.get(), &drained, sizeof drained) > 0) {
  }
  while (true) {
    // Looks before it reaps: a rank may have ended just now and must be reported.
    siginfo_t info = {};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return errno == ECHILD;
    if (info.si_pid == 0) return false;
    const auto rank = std::ranges::find(ranks_, info.si_pid, &Rank::pid);
    if (rank == ranks_.end())
      ::waitpid(info.si_pid, nullptr, WNOHANG);
    else
      reap_ranks();
  }
}

// Ranks that are ending already do so for a reason of their own.
void Supervisor::note_asked() {
  for (Rank& rank : ranks_)
    if (rank.pid > 0 && !remote::is_exiting(rank.pid)) rank.asked = true;
}

void Supervisor::signal_all(int signal) {
  for (const Rank& rank : ranks_)
    if (rank.pid > 0) ::kill(-rank.pid, signal);
  for (const pid_t pid : remote::children_of_this_process())
    if (std::ranges::find(ranks_, pid, &Rank::pid) == ranks_.end()) ::kill(pid, signal);
}

// A killed process leaves its children to this one, so that repeated rounds reach every descendant.
void Supervisor::kill_all() {
  const auto deadline = Clock::now() + kKillTimeout;
  note_asked();
  while (Clock::now() < deadline) {
    for (const Rank& rank : ranks_)
      if (rank.pid > 0) ::kill(-rank.pid, SIGKILL);
    for (const pid_t pid : remote::children_of_this_process()) ::kill(pid, SIGKILL);
    pollfd entry{.fd = child_signal_.get(), .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, 20);
    reap_ranks();
    if (reap_orphans()) return report({.kind = SupervisorEvent::Kind::kAllGone});
  }
}

void Supervisor::report(SupervisorEvent event) {
  // Fails when the launcher is gone; waits when the socket is full, until the launcher reads.
  ::send(control_.get(), &event, sizeof event, MSG_NOSIGNAL);
}

}  // namespace xoe::launch

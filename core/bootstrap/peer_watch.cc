#include "core/bootstrap/peer_watch.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "core/base/error.h"

namespace xoe::bootstrap {

Result<Fd> PeerWatch::open(pid_t pid) {
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd.valid() && errno == ESRCH) return failure(Code::kPeerLost, "the process {} of a peer has ended", pid);
  if (!fd.valid())
    return failure(Code::kUnavailable, "cannot watch process {} (pidfd_open): {}", pid, errno_text(errno));
  return fd;
}

Result<std::unique_ptr<PeerWatch>> PeerWatch::start(std::vector<Fd> processes, std::function<void(int)> ended) {
  std::unique_ptr<PeerWatch> watch(new PeerWatch);
  watch->owner_ = ::getpid();
  watch->stop_ = Fd(::eventfd(0, EFD_CLOEXEC));
  if (!watch->stop_.valid())
    return failure(Code::kResourceExhausted, "cannot watch the peers (eventfd): {}", errno_text(errno));
  // Signals are for the program's own threads: this one inherits a full mask.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = true;
  try {
    watch->thread_ = std::jthread(
        [self = watch.get(), fds = std::move(processes), call = std::move(ended)] { self->watch(fds, call); });
  } catch (const std::system_error&) {
    started = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started)
    return failure(Code::kResourceExhausted, "cannot start a thread to watch the peers (limit of processes?)");
  return watch;
}

PeerWatch::~PeerWatch() {
  if (!thread_.joinable()) return;
  if (owner_ != ::getpid()) {
    thread_.detach();  // a forked child does not have the thread
    return;
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(stop_.get(), &one, sizeof one);
}

void PeerWatch::watch(const std::vector<Fd>& processes, const std::function<void(int)>& ended) const {
  std::vector<pollfd> polled;
  polled.push_back({stop_.get(), POLLIN, 0});
  for (const Fd& process : processes) polled.push_back({process.get(), POLLIN, 0});  // poll skips negative ones
  while (polled[0].revents == 0) {
    if (::poll(polled.data(), polled.size(), -1) < 0) continue;  // EINTR
    for (std::size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      polled[i].fd = -1;
      polled[i].revents = 0;
      ended(static_cast<int>(i) - 1);
    }
  }
}

}  // namespace xoe::bootstrap

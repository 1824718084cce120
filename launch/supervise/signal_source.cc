#include "launch/supervise/signal_source.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include "core/base/error.h"

namespace xoe::launch {
namespace {

constexpr int kWriteSignals[] = {SIGPIPE, SIGXFSZ};

}  // namespace

Result<SignalSource> SignalSource::open() {
  sigset_t taken;
  ::sigemptyset(&taken);
  for (const int signal : {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH}) {
    struct sigaction action = {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) ::sigaddset(&taken, signal);
  }
  Fd fd(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return failure(Code::kResourceExhausted, "signalfd: {}", errno_text(errno));
  // Writing to a closed output gives EPIPE, beyond a limit on the size of files EFBIG: the writer handles them.
  for (const int signal : kWriteSignals) ::sigaddset(&taken, signal);
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &taken, &before);
  return SignalSource(std::move(fd), before);
}

SignalSource::~SignalSource() {
  if (!fd_.valid()) return;
  // Drops those of our own that are pending before they are unblocked.
  sigset_t writing;
  ::sigemptyset(&writing);
  for (const int signal : kWriteSignals) ::sigaddset(&writing, signal);
  const timespec now = {};
  while (::sigtimedwait(&writing, nullptr, &now) > 0) {
  }
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> SignalSource::next() {
  signalfd_siginfo info;
  if (::read(fd_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

void reset_child_signal() {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &action, nullptr);
}

}  // namespace xoe::launch

// Blocks SIGPIPE, which writing to a connection closed by the peer raises and which ends a program by default.
#pragma once

#include <csignal>
#include <ctime>

namespace xoe::gloo {

// No SIGPIPE in this thread, nor in threads that it starts meanwhile.
class SigpipeGuard {
 public:
  SigpipeGuard() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  SigpipeGuard(const SigpipeGuard&) = delete;
  ~SigpipeGuard() {
    if (::sigismember(&before_, SIGPIPE) != 0) return;
    if (pending_) {
      const timespec at_once{};
      ::sigtimedwait(&pipe_, nullptr, &at_once);
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  // A write may have failed: the destructor takes a pending SIGPIPE away.
  void may_be_pending() { pending_ = true; }

 private:
  sigset_t pipe_, before_;
  bool pending_ = false;
};

}  // namespace xoe::gloo

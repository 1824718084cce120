// Writing to a connection that the peer closed raises SIGPIPE, which ends a program that did not prepare for it.
#pragma once

#include <csignal>
#include <ctime>

namespace xoe::gloo {

// No SIGPIPE in this thread, nor in the threads that it starts meanwhile.
class QuietPipe {
 public:
  QuietPipe() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  QuietPipe(const QuietPipe&) = delete;
  ~QuietPipe() {
    if (::sigismember(&before_, SIGPIPE) != 0) return;
    if (raised_) {
      const timespec at_once{};
      ::sigtimedwait(&pipe_, nullptr, &at_once);
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  // A write may have failed: takes its signal away.
  void may_be_raised() { raised_ = true; }

 private:
  sigset_t pipe_, before_;
  bool raised_ = false;
};

}  // namespace xoe::gloo

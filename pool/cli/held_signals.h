// Holds back the signals that would end this process, while it has something to give back first.
#pragma once

#include <csignal>

namespace xoe::tools::pool {

// Of a program with one thread. What came meanwhile acts when it is destroyed.
class HeldSignals {
 public:
  HeldSignals() {
    const sigset_t ending = ending_signals();
    ::sigprocmask(SIG_BLOCK, &ending, &before_);
  }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  ~HeldSignals() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

  const sigset_t& before() const noexcept { return before_; }  // for programs that this one starts

  static sigset_t ending_signals() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, signal);
    return set;
  }
  // Whether one of them waits.
  static bool any() {
    sigset_t pending;
    ::sigpending(&pending);
    return ::sigismember(&pending, SIGINT) == 1 || ::sigismember(&pending, SIGTERM) == 1 ||
           ::sigismember(&pending, SIGHUP) == 1;
  }

 private:
  sigset_t before_ = {};
};

}  // namespace xoe::tools::pool

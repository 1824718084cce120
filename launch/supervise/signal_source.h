// The launcher's signals, read from a descriptor.
#pragma once

#include <signal.h>

#include <optional>

#include "core/base/fd.h"
#include "xoe/status.h"

namespace xoe::launch {

// Blocks the signals that a launcher passes on, except those that were ignored when the program started (nohup, a
// background job of a script): they stay ignored. Restores the signal mask at its end.
class SignalSource {
 public:
  static Result<SignalSource> open();
  SignalSource(SignalSource&& other) noexcept : fd_(std::move(other.fd_)), before_(other.before_) {}
  ~SignalSource();

  int fd() const noexcept { return fd_.get(); }
  std::optional<int> next();
  const sigset_t& mask_before() const noexcept { return before_; }

 private:
  SignalSource(Fd fd, sigset_t before) : fd_(std::move(fd)), before_(before) {}

  Fd fd_;
  sigset_t before_;
};

// Undoes an ignored SIGCHLD that was inherited: children's exit codes would be lost.
void reset_child_signal();

}  // namespace xoe::launch

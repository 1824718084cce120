// Carries input from the terminal to rank 0.
#pragma once

#include <string>

#include "core/base/fd.h"
#include "launch/output/output.h"

namespace xoe::launch {

// Rank 0 does not belong to the terminal's session, so it could read from the terminal even while the job is in the
// background. The relay reads on its behalf, and only in the foreground. Files and pipes need no relay: rank 0
// inherits them.
class StdinRelay {
 public:
  StdinRelay() = default;  // relays nothing
  // `echo`: where what is typed shows, if it is the same terminal; outlives this.
  StdinRelay(int terminal, Fd to_rank, Sink& echo) : terminal_(terminal), to_rank_(std::move(to_rank)), echo_(&echo) {}

  int write_end() const noexcept { return to_rank_.get(); }
  bool wants_input() const;
  // There is a terminal, but the job is in the background: no event tells when that changes, so check again soon.
  bool in_background() const { return to_rank_.valid() && !in_foreground(); }
  bool wants_output() const noexcept { return to_rank_.valid() && !pending_.empty(); }
  void read();
  void write();
  void close() { to_rank_ = Fd(); }

 private:
  bool in_foreground() const;

  int terminal_ = -1;
  Fd to_rank_;
  Sink* echo_ = nullptr;
  std::string pending_;
};

}  // namespace xoe::launch

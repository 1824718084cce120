// Programs that are asked for facts.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launch/remote/spawn.h"
#include "xoe/status.h"

namespace xoe::remote {

struct Answer {
  std::string out = {};
  std::string err = {};
  int status = 0;       // of wait()
  bool in_time = true;  // false: it was killed, and `out` is what it had printed
};

// Gives what a program prints until it ends or `timeout` is over; then it is killed, with all that it started.
// `unavailable`: it cannot be started; `internal`: it prints more than a MiB, and was killed.
Result<Answer> ask_program(const std::vector<std::string>& command, const Inherited& inherited,
                           std::chrono::milliseconds timeout);

}  // namespace xoe::remote

// A training that runs as a child, whose lines tell of its steps and of the processes of its ranks.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "launch/remote/spawn.h"
#include "xoe/status.h"

namespace xoe::bench {

struct StepDone {
  std::int64_t step = 0;  // from 1
  std::chrono::steady_clock::time_point at = {};
};

// It prints lines with JSON in them: {"event": "process", "rank": R, "pid": P} for each process of a rank, and
// {"event": "report", "step": N} for each step. One thread at a time.
class WatchedTraining {
 public:
  using Clock = std::chrono::steady_clock;
  // `unavailable`: it cannot be started. It ends with this object.
  static Result<WatchedTraining> start(const std::vector<std::string>& words);
  WatchedTraining(WatchedTraining&&) = default;
  WatchedTraining& operator=(WatchedTraining&&) = delete;
  ~WatchedTraining();

  // Waits until it has printed something, or has ended, or `also` can be read, but not beyond the deadline. False: it
  // has ended. also: -1: none.
  bool wait(Clock::time_point deadline, int also = -1);
  // The steps since the last call.
  std::deque<StepDone> take_steps() { return std::exchange(steps_, {}); }
  // Kills the process that this rank has now. False: it has none.
  bool kill_rank(int rank);
  // How it ended: "exited with code 1"; and the last lines that it printed.
  std::string describe_end() const;
  // Gives it so long to end by itself.
  void finish(std::chrono::nanoseconds limit);

 private:
  WatchedTraining(remote::Spawned process, Fd output) : process_(std::move(process)), output_(std::move(output)) {}
  void read();
  void take(std::string_view line);
  bool has_ended(int timeout_ms);

  remote::Spawned process_;
  Fd output_;
  std::string line_;  // without its end yet
  std::deque<std::string> last_lines_;
  std::deque<StepDone> steps_;
  std::map<int, Fd> ranks_;  // by rank: of the last process that it named, which cannot be taken for another one
  std::optional<int> status_;
};

}  // namespace xoe::bench

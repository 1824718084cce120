// The processes of a running job as the launcher's loop sees them: on this host or on several.
#pragma once

#include <poll.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launch/guardian.h"
#include "launch/stream.h"

namespace xoe::launch {

class Crew {
 public:
  using Clock = std::chrono::steady_clock;
  virtual ~Crew() = default;

  virtual void send(GuardianCommand command) = 0;
  // What has happened; kAllGone is the last of it.
  virtual std::optional<GuardianEvent> next() = 0;
  virtual bool lost() const = 0;  // a guardian was killed
  // Around a time in which the launcher is stopped.
  virtual void pause() = 0;
  virtual void resume() = 0;

  // After kAllGone: output may still come. Closes what stays silent though nobody is left to write.
  virtual bool output_open(Clock::time_point now) = 0;
  virtual void close_input() = 0;
  virtual const Stream& of(std::size_t rank, bool err) const = 0;
  virtual std::vector<std::string> file_errors() const = 0;
  virtual std::string host_of(int rank) const = 0;
  // What became of hosts that were lost.
  virtual std::vector<std::string> host_failures() const = 0;

  // Around poll(): adds what to wait for, then remembers what is ready, then moves the bytes.
  virtual void add_to(std::vector<pollfd>& polled) = 0;
  virtual void take(const std::vector<pollfd>& polled, Clock::time_point now) = 0;
  virtual void pump() = 0;
  // When it wants its turn though nothing is ready.
  virtual std::optional<Clock::time_point> next_turn(Clock::time_point now) const = 0;
};

}  // namespace xoe::launch

// The hosts that the launcher reaches through this one: their remote shells, and the bytes both ways.
#pragma once

#include <poll.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/remote/child_process.h"
#include "launch/remote/frame_connection.h"

namespace xoe::remote {

// An agent's side of RelayedConnections. It does not look into the bytes that it carries: launcher and agents agree
// with each other on how much may be under way.
class Relay {
 public:
  using Clock = std::chrono::steady_clock;

  // `inherited`: for the shells.
  explicit Relay(Inherited inherited) : inherited_(std::move(inherited)) {}

  // False: the frame is not about a host behind this one.
  bool on_frame(const Frame& frame, FrameConnection& launcher);
  // Before and after poll().
  void add_to(std::vector<pollfd>& polled, const FrameConnection& launcher);
  void pump(const std::vector<pollfd>& polled, FrameConnection& launcher);
  // The launcher is gone: the agents behind see the end of their input and end.
  void hang_up(Clock::time_point now);
  // No shell is left, or waited for any longer.
  bool finished(Clock::time_point now) const;
  // Our ends of the shells' pipes, which other children must not keep open.
  std::vector<int> descriptors() const;

 private:
  struct Shell {
    StartedChild child;
    std::size_t max_input;  // bytes that may wait
    std::string input = {};
    std::size_t first = 0;  // of its four entries in `polled`
  };
  void start(const Frame& frame, FrameConnection& launcher);
  static void feed(Shell& shell, std::string_view bytes);
  static bool read(std::int64_t number, Shell& shell, const std::vector<pollfd>& polled, FrameConnection& launcher);
  static bool report_end(std::int64_t number, Shell& shell, FrameConnection& launcher);

  Inherited inherited_;
  std::map<std::int64_t, Shell> shells_;
  std::int64_t next_ = 0;  // the shell with this number, or the first one after it, is read first
  std::optional<Clock::time_point> hung_up_at_;
};

}  // namespace xoe::remote

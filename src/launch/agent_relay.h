// The hosts that the launcher reaches through this one: their remote shells, and the bytes both ways.
#pragma once

#include <poll.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "launch/frame_pipe.h"
#include "launch/shell_process.h"

namespace xoe::launch {

// What the shells say is not looked into: launcher and agents agree with each other on how much may be under way.
class AgentRelay {
 public:
  using Clock = std::chrono::steady_clock;

  // What shells get: the variables and limits that this agent got.
  AgentRelay(const Env& env, const sigset_t& mask, const rlimit& open_files)
      : env_(env), mask_(mask), open_files_(open_files) {}

  // False: the frame is about something else.
  bool take(const AgentFrame& frame, FramePipe& launcher);
  // Around poll(), the second with what it found.
  void add_to(std::vector<pollfd>& polled, const FramePipe& launcher);
  void pump(const std::vector<pollfd>& polled, FramePipe& launcher);
  // Without the launcher: the agents behind see the end of their input and end.
  void hang_up(Clock::time_point now);
  // No shell is left, or waited for any longer.
  bool over(Clock::time_point now) const;
  // What the guardian must not keep open.
  std::vector<int> descriptors() const;

 private:
  struct Shell {
    StartedShell ends;
    std::size_t most;  // bytes of input that may wait
    std::string input = {};
    std::size_t first = 0;  // of its four entries in `polled`
  };
  void start(const AgentFrame& frame, FramePipe& launcher);
  static void feed(Shell& shell, std::string_view bytes);
  static void write(Shell& shell);
  static bool serve(std::int64_t number, Shell& shell, const std::vector<pollfd>& polled, FramePipe& launcher);
  static bool tell_end(std::int64_t number, Shell& shell, FramePipe& launcher);

  Env env_;
  sigset_t mask_;
  rlimit open_files_;
  std::map<std::int64_t, Shell> shells_;
  std::int64_t turn_ = 0;  // of the shell with this number, or the next one
  std::optional<Clock::time_point> hung_up_at_;
};

}  // namespace xoe::launch

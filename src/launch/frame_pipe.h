// Frames over two descriptors, one for each direction, without ever blocking.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/fd.h"
#include "launch/agent_frames.h"
#include "xoe/status.h"

namespace xoe::launch {

class FramePipe {
 public:
  using Clock = std::chrono::steady_clock;
  // `greeting`: what comes in begins with one. Makes both descriptors non-blocking.
  FramePipe(Fd in, Fd out, bool greeting);

  int in() const noexcept { return in_.get(); }
  int out() const noexcept { return out_.get(); }
  bool wants_to_write() const noexcept { return out_.valid() && !queue_.empty(); }
  bool closed() const noexcept { return !in_.valid(); }  // nothing more will come in
  Clock::time_point heard() const noexcept { return heard_; }
  // As if something had come in: for a time in which nobody listened.
  void forgive() { heard_ = Clock::now(); }

  void greet();
  void send(const AgentFrame& frame);
  // Says that we are there when nothing else was said for so long.
  void keep_alive(Clock::time_point now, Clock::duration interval);
  // Reads once. An error of the stream shows as closed().
  void read();
  void write();
  Result<std::optional<AgentFrame>> next() { return reader_.next(); }
  const AgentFrameReader& reader() const noexcept { return reader_; }
  // The other side sees the end of what we send; what is queued is lost.
  void close_out() { out_ = Fd(); }
  void close();

 private:
  Fd in_;
  Fd out_;
  AgentFrameReader reader_;
  std::string queue_;
  Clock::time_point heard_ = Clock::now();
  Clock::time_point sent_ = Clock::now();
};

// How often each side of a pipe says that it is there when silence counts as lost after `timeout`.
std::chrono::nanoseconds alive_interval(std::chrono::nanoseconds timeout);

}  // namespace xoe::launch

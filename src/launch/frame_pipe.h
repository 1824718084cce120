// Frames both ways without ever blocking: over two descriptors, or carried by somebody else.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/fd.h"
#include "launch/agent_frames.h"
#include "xoe/status.h"

namespace xoe::launch {

class FramePipe {
 public:
  using Clock = std::chrono::steady_clock;
  // `greeting`: what comes in begins with one. Makes both descriptors non-blocking.
  FramePipe(Fd in, Fd out, bool greeting);
  // Carried by the owner: feed() and end() bring what comes in, take() gives what goes out.
  explicit FramePipe(bool greeting) : reader_(greeting) {}

  int in() const noexcept { return in_.get(); }
  int out() const noexcept { return out_.get(); }
  bool wants_to_write() const noexcept { return !queue_.empty(); }
  std::size_t queued() const noexcept { return queue_.size(); }
  bool closed() const noexcept { return !in_open_; }  // nothing more will come in
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
  void feed(std::string_view bytes);
  void end();
  std::string take() { return std::exchange(queue_, {}); }
  Result<std::optional<AgentFrame>> next() { return reader_.next(); }
  const AgentFrameReader& reader() const noexcept { return reader_; }
  // The other side sees the end of what we send; what is queued is lost.
  void close();

 private:
  void close_out();

  Fd in_;
  Fd out_;
  bool in_open_ = true;
  bool out_open_ = true;
  AgentFrameReader reader_;
  std::string queue_;
  Clock::time_point heard_ = Clock::now();
  Clock::time_point sent_ = Clock::now();
};

// How often each side of a pipe says that it is there when silence counts as lost after `timeout`.
std::chrono::nanoseconds alive_interval(std::chrono::nanoseconds timeout);

}  // namespace xoe::launch

// Frames both ways without ever blocking: over two descriptors, sealed over a socket, or carried by the frames of
// another connection.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/fd.h"
#include "core/bootstrap/member_connection.h"
#include "launch/remote/frame.h"
#include "xoe/status.h"

namespace xoe::remote {

// One thread at a time. The caller blocks or ignores SIGPIPE.
class FrameConnection {
 public:
  using Clock = std::chrono::steady_clock;
  // `greeting`: incoming bytes begin with one. Makes both descriptors non-blocking.
  FrameConnection(Fd in, Fd out, bool greeting);
  // Over a socket to a member of the job, sealed. One that was changed on its way counts as closed.
  FrameConnection(bootstrap::MemberConnection member, bool greeting);
  // Carried by its owner: feed() and end() bring what comes in, take() gives what goes out.
  explicit FrameConnection(bool greeting) : reader_(greeting) {}

  int in() const noexcept { return in_.get(); }
  int out() const noexcept { return out_.get(); }
  bool wants_to_write() const noexcept { return !queue_.empty() || (seal_ && !seal_->out.empty()); }
  std::size_t queued() const noexcept { return queue_.size() + (seal_ ? seal_->out.size() : 0); }
  bool closed() const noexcept { return !in_open_; }  // nothing more will come in
  // When something last came in.
  Clock::time_point heard() const noexcept { return heard_; }
  // Sets heard() to now, after a time in which this side did not read.
  void reset_silence() { heard_ = Clock::now(); }

  void greet();
  void send(const Frame& frame);
  // Sends a keepalive when nothing was sent for `interval`.
  void keep_alive(Clock::time_point now, Clock::duration interval);
  // Reads once. An error of the stream shows as closed().
  void read();
  void write();
  void feed(std::string_view bytes);
  void end();
  std::string take() { return std::exchange(queue_, {}); }
  Result<std::optional<Frame>> next() { return reader_.next(); }
  const FrameReader& reader() const noexcept { return reader_; }
  // The other side sees the end of the stream; bytes that are queued are lost.
  void close();

 private:
  struct Seal {
    bootstrap::Sealer sealer;
    bootstrap::Opener opener;
    std::string out = {};  // records that are on their way
  };
  void close_out();

  Fd in_;
  Fd out_;
  bool in_open_ = true;
  bool out_open_ = true;
  FrameReader reader_;
  std::string queue_;
  std::optional<Seal> seal_;
  Clock::time_point heard_ = Clock::now();
  Clock::time_point sent_ = Clock::now();
};

// How often each side sends a keepalive when silence counts as a lost connection after `timeout`.
std::chrono::nanoseconds keepalive_interval(std::chrono::nanoseconds timeout);

}  // namespace xoe::remote

#include "launch/remote/frame_connection.h"

#include <fcntl.h>

#include <algorithm>

#include "launch/remote/child_process.h"
#include "launch/remote/host_clock.h"

namespace xoe::remote {

FrameConnection::FrameConnection(Fd in, Fd out, bool greeting)
    : in_(std::move(in)), out_(std::move(out)), reader_(greeting) {
  set_nonblocking(in_);
  set_nonblocking(out_);
}

FrameConnection::FrameConnection(bootstrap::MemberConnection member, bool greeting)
    : in_(std::move(member.socket)),
      out_(::fcntl(in_.get(), F_DUPFD_CLOEXEC, 0)),
      out_open_(out_.valid()),
      reader_(greeting),
      seal_(Seal{.sealer = bootstrap::Sealer(std::move(member.keys.send)),
                 .opener = bootstrap::Opener(std::move(member.keys.receive))}) {}

void FrameConnection::greet() { queue_.append(kAgentGreeting); }

void FrameConnection::send(const Frame& frame) {
  if (!out_open_) return;
  sent_ = Clock::now();
  append_frame(queue_, frame);
}

void FrameConnection::keep_alive(Clock::time_point now, Clock::duration interval) {
  // A queue that the other side does not take is sign of life enough.
  if (now - sent_ >= interval && !wants_to_write())
    send({.kind = Frame::Kind::kAlive, .time = HostClock::now().count()});
}

void FrameConnection::read() {
  if (!in_.valid()) return;
  if (const std::string bytes = read_some(in_); !bytes.empty()) {
    std::string plain;
    if (seal_ && !seal_->opener.open(bytes, plain)) return end();
    feed(seal_ ? plain : bytes);
  }
  if (!in_.valid()) end();
}

void FrameConnection::feed(std::string_view bytes) {
  if (!in_open_) return;
  heard_ = Clock::now();
  reader_.append(bytes);
}

void FrameConnection::end() {
  in_ = Fd();
  in_open_ = false;
}

void FrameConnection::write() {
  if (!out_.valid()) return;
  if (seal_ && !queue_.empty()) seal_->sealer.seal(std::exchange(queue_, {}), seal_->out);
  write_some(out_, seal_ ? seal_->out : queue_);
  if (!out_.valid()) close_out();  // frames may still come in, and then the end
}

void FrameConnection::close_out() {
  out_ = Fd();
  out_open_ = false;
  queue_.clear();
  if (seal_) seal_->out.clear();
}

void FrameConnection::close() {
  end();
  close_out();
}

std::chrono::nanoseconds keepalive_interval(std::chrono::nanoseconds timeout) {
  return std::min<std::chrono::nanoseconds>(std::chrono::seconds(2), timeout / 4);
}

}  // namespace xoe::remote

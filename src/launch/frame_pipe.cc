#include "launch/frame_pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace xoe::launch {
namespace {

void unblock(const Fd& fd) { ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK); }

}  // namespace

FramePipe::FramePipe(Fd in, Fd out, bool greeting) : in_(std::move(in)), out_(std::move(out)), reader_(greeting) {
  unblock(in_);
  unblock(out_);
}

void FramePipe::greet() { queue_.append(kAgentGreeting); }

void FramePipe::send(const AgentFrame& frame) {
  if (!out_open_) return;
  sent_ = Clock::now();
  append_frame(queue_, frame);
}

void FramePipe::keep_alive(Clock::time_point now, Clock::duration interval) {
  // With a queue that is not taken there is something to say already.
  if (now - sent_ >= interval && queue_.empty()) send({.kind = AgentFrame::Kind::kAlive});
}

void FramePipe::read() {
  if (!in_.valid()) return;
  std::array<char, std::size_t{64} << 10> chunk;
  const auto count = ::read(in_.get(), chunk.data(), chunk.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return end();
  feed({chunk.data(), static_cast<std::size_t>(count)});
}

void FramePipe::feed(std::string_view bytes) {
  if (!in_open_) return;
  heard_ = Clock::now();
  reader_.append(bytes);
}

void FramePipe::end() {
  in_ = Fd();
  in_open_ = false;
}

void FramePipe::write() {
  std::size_t written = 0;
  while (out_.valid() && written < queue_.size()) {
    const auto count = ::write(out_.get(), queue_.data() + written, queue_.size() - written);
    if (count >= 0)
      written += static_cast<std::size_t>(count);
    else if (errno == EAGAIN)
      break;
    else if (errno != EINTR)
      return close_out();  // what it has to say comes in, and then its end
  }
  queue_.erase(0, written);
}

void FramePipe::close_out() {
  out_ = Fd();
  out_open_ = false;
  queue_.clear();
}

void FramePipe::close() {
  end();
  close_out();
}

std::chrono::nanoseconds alive_interval(std::chrono::nanoseconds timeout) {
  return std::min<std::chrono::nanoseconds>(std::chrono::seconds(2), timeout / 4);
}

}  // namespace xoe::launch

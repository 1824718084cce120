#include "launch/agents/agent_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "core/base/error.h"
#include "launch/output/job_streams.h"
#include "launch/remote/child_process.h"
#include "launch/remote/host_clock.h"

namespace xoe::launch {
namespace {

constexpr std::size_t kStdin = SIZE_MAX;

}  // namespace

Result<AgentStreams> AgentStreams::open(const std::vector<AgentRank>& ranks, std::vector<RankEnds>& ends) {
  AgentStreams streams;
  for (const AgentRank& rank : ranks) {
    RankEnds& end = ends.emplace_back();
    for (const bool err : {false, true}) {
      XOE_ASSIGN(auto pipe, remote::open_pipe());
      remote::set_nonblocking(pipe[0]);
      (err ? end.err : end.out) = std::move(pipe[1]);
      streams.streams_.push_back({.fd = std::move(pipe[0]), .rank = rank.rank, .err = err});
    }
    if (rank.rank == 0) {
      XOE_ASSIGN(auto pipe, remote::open_pipe());
      remote::set_nonblocking(pipe[1]);
      end.in = std::move(pipe[0]);
      streams.input_end_ = std::move(pipe[1]);
    } else {
      end.in = Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      if (!end.in.valid()) return failure(Code::kUnavailable, "cannot open /dev/null: {}", errno_text(errno));
    }
  }
  return streams;
}

void AgentStreams::copy_to(Output& output, const RunOptions& options) {
  output_ = &output;
  for (const Stream& stream : streams_) copies_.push_back(stream_to(options, stream.rank, stream.err, output));
}

std::vector<int> AgentStreams::descriptors() const {
  std::vector<int> all;
  for (const Stream& stream : streams_) all.push_back(stream.fd.get());
  if (input_end_.valid()) all.push_back(input_end_.get());
  return all;
}

bool AgentStreams::open() const {
  return std::ranges::any_of(streams_, [](const Stream& stream) { return stream.fd.valid(); });
}

void AgentStreams::drain(Clock::time_point now) {
  close_input();
  const bool begins = !std::exchange(draining_, true);
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    // A rank that was silent for long may have written a moment before it ended.
    if (begins || !may_read(stream)) stream.heard = now;
    if (now - stream.heard >= kDrainTimeout) close(i);
  }
}

bool AgentStreams::may_read(const Stream& stream) const {
  return credit_ > 0 && (output_ == nullptr || !(stream.err ? output_->err() : output_->out()).full());
}

void AgentStreams::close(std::size_t stream) {
  streams_[stream].fd = Fd();
  if (output_ != nullptr) copies_[stream].close();
}

void AgentStreams::add_to(std::vector<pollfd>& polled) {
  first_ = polled.size();
  waiting_.clear();
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (!streams_[i].fd.valid() || !may_read(streams_[i])) continue;
    polled.push_back({.fd = streams_[i].fd.get(), .events = POLLIN, .revents = 0});
    waiting_.push_back(i);
  }
  if (input_end_.valid() && (!input_.empty() || input_ended_)) {
    polled.push_back({.fd = input_end_.get(), .events = POLLOUT, .revents = 0});
    waiting_.push_back(kStdin);
  }
  if (output_ == nullptr) return;
  for (const Sink* sink : {&output_->out(), &output_->err()})
    if (!sink->empty()) polled.push_back({.fd = sink->fd(), .events = POLLOUT, .revents = 0});
}

void AgentStreams::pump(const std::vector<pollfd>& polled, remote::FrameConnection& launcher, Clock::time_point now) {
  // Another one comes first each time: where there is room for one stream at a time, each has its turn.
  ++turn_;
  for (std::size_t k = 0; k < waiting_.size(); ++k) {
    const std::size_t i = (k + turn_) % waiting_.size();
    if (polled[first_ + i].revents == 0) continue;
    if (waiting_[i] == kStdin)
      write_input(launcher);
    else
      read(waiting_[i], launcher, now);
  }
  if (output_ == nullptr) return;
  for (launch::Stream& copy : copies_) copy.flush_bar(now);
  output_->flush();
}

void AgentStreams::read(std::size_t index, remote::FrameConnection& launcher, Clock::time_point now) {
  Stream& stream = streams_[index];
  if (!may_read(stream)) return;  // those before it may have used the room
  std::array<char, std::size_t{64} << 10> chunk;
  const auto most = std::min<std::int64_t>(static_cast<std::int64_t>(chunk.size()), credit_);
  const auto count = ::read(stream.fd.get(), chunk.data(), static_cast<std::size_t>(most));
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return close(index);
  stream.heard = now;
  credit_ -= count;
  if (output_ != nullptr) copies_[index].feed({chunk.data(), static_cast<std::size_t>(count)});
  launcher.send({.kind = remote::Frame::Kind::kOutput,
                 .rank = stream.rank,
                 .value = stream.err ? 1 : 0,
                 .time = remote::HostClock::now().count(),
                 .text = {chunk.data(), static_cast<std::size_t>(count)}});
}

void AgentStreams::write_input(remote::FrameConnection& launcher) {
  if (!input_.empty()) {
    const auto count = ::write(input_end_.get(), input_.data(), input_.size());
    if (count > 0) {
      input_.erase(0, static_cast<std::size_t>(count));
      launcher.send({.kind = remote::Frame::Kind::kInputTaken, .value = count});
    } else if (errno != EAGAIN && errno != EINTR) {
      close_input();
      launcher.send({.kind = remote::Frame::Kind::kInputClosed});
    }
  }
  if (input_.empty() && input_ended_) close_input();
}

}  // namespace xoe::launch

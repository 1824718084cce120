#include "launch/agents/agent_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/error.h"
#include "remote/child_process.h"
#include "remote/host_clock.h"

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
  for (Stream& stream : streams_) {
    if (credit_ <= 0 || stream.heard == Clock::time_point()) stream.heard = now;  // could not be read
    if (now - stream.heard >= kDrainPatience) stream.fd = Fd();
  }
}

void AgentStreams::add_to(std::vector<pollfd>& polled) {
  first_ = polled.size();
  waiting_.clear();
  if (credit_ > 0)
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      if (!streams_[i].fd.valid()) continue;
      polled.push_back({.fd = streams_[i].fd.get(), .events = POLLIN, .revents = 0});
      waiting_.push_back(i);
    }
  if (input_end_.valid() && (!input_.empty() || input_ended_)) {
    polled.push_back({.fd = input_end_.get(), .events = POLLOUT, .revents = 0});
    waiting_.push_back(kStdin);
  }
}

void AgentStreams::pump(const std::vector<pollfd>& polled, remote::FrameConnection& launcher, Clock::time_point now) {
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    if (polled[first_ + i].revents == 0) continue;
    if (waiting_[i] == kStdin)
      write_input(launcher);
    else
      read(streams_[waiting_[i]], launcher, now);
  }
}

void AgentStreams::read(Stream& stream, remote::FrameConnection& launcher, Clock::time_point now) {
  std::array<char, std::size_t{64} << 10> chunk;
  const auto most = std::min<std::int64_t>(static_cast<std::int64_t>(chunk.size()), credit_);
  if (most <= 0) return;
  const auto count = ::read(stream.fd.get(), chunk.data(), static_cast<std::size_t>(most));
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    stream.fd = Fd();
    return;
  }
  stream.heard = now;
  credit_ -= count;
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

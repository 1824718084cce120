#include "launch/output/stdin_feed.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace xoe::launch {

StdinFeed::StdinFeed(Sink& echo) : echo_(echo), terminal_(::isatty(STDIN_FILENO) == 1) {}

bool StdinFeed::in_foreground() const { return ::tcgetpgrp(STDIN_FILENO) == ::getpgrp(); }

void StdinFeed::add_to(std::vector<pollfd>& polled) {
  asked_ = open_ && under_way_ < remote::kInputWindow && !in_background();
  if (!asked_) return;
  entry_ = polled.size();
  polled.push_back({.fd = STDIN_FILENO, .events = POLLIN, .revents = 0});
}

void StdinFeed::pump(const std::vector<pollfd>& polled, remote::FrameConnection& agent) {
  if (!asked_ || !open_ || polled[entry_].revents == 0) return;
  std::array<char, std::size_t{64} << 10> chunk;
  const auto count = ::read(STDIN_FILENO, chunk.data(), chunk.size());
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (count <= 0) {
    open_ = false;
    agent.send({.kind = remote::Frame::Kind::kInputEnd});
    return;
  }
  under_way_ += count;
  if (terminal_) echo_.typed(static_cast<std::size_t>(std::count(chunk.data(), chunk.data() + count, '\n')));
  agent.send({.kind = remote::Frame::Kind::kInput, .text = {chunk.data(), static_cast<std::size_t>(count)}});
}

}  // namespace xoe::launch

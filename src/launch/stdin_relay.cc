#include "launch/stdin_relay.h"

#include <unistd.h>

#include <array>
#include <cerrno>

namespace xoe::launch {

bool StdinRelay::wants_input() const {
  return to_rank_.valid() && pending_.empty() && !ended_ && ::tcgetpgrp(terminal_) == ::getpgrp();
}

void StdinRelay::read() {
  std::array<char, 4096> chunk;
  const auto count = ::read(terminal_, chunk.data(), chunk.size());
  if (count > 0) {
    pending_.assign(chunk.data(), static_cast<std::size_t>(count));
    return write();
  }
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
  ended_ = true;
  close();
}

void StdinRelay::write() {
  const auto count = ::write(to_rank_.get(), pending_.data(), pending_.size());
  if (count > 0)
    pending_.erase(0, static_cast<std::size_t>(count));
  else if (errno != EAGAIN && errno != EINTR)
    close();  // rank 0 has closed its stdin
}

}  // namespace xoe::launch

#include "launch/output/stdin_relay.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace xoe::launch {

bool StdinRelay::in_foreground() const { return ::tcgetpgrp(terminal_) == ::getpgrp(); }

bool StdinRelay::wants_input() const { return to_rank_.valid() && pending_.empty() && in_foreground(); }

void StdinRelay::read() {
  std::array<char, 4096> chunk;
  const auto count = ::read(terminal_, chunk.data(), chunk.size());
  if (count > 0) {
    pending_.assign(chunk.data(), static_cast<std::size_t>(count));
    echo_->typed(static_cast<std::size_t>(std::ranges::count(pending_, '\n')));
    return write();
  }
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
  close();  // ^D, or the terminal is gone
}

void StdinRelay::write() {
  const auto count = ::write(to_rank_.get(), pending_.data(), pending_.size());
  if (count > 0)
    pending_.erase(0, static_cast<std::size_t>(count));
  else if (errno != EAGAIN && errno != EINTR)
    close();  // rank 0 has closed its stdin
}

}  // namespace xoe::launch

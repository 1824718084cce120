#include "launch/remote/relay.h"

#include <algorithm>
#include <tuple>

#include "core/base/error.h"

namespace xoe::remote {
namespace {

using Kind = Frame::Kind;

// As ssh ends when it does not reach its host.
constexpr int kNotReached = 255 << 8;
constexpr auto kEndTimeout = std::chrono::seconds(1);
// No shell is read while so much is queued for the launcher, so that this host keeps little more however many hosts are
// behind it. All of it together is bounded by their windows, which the launcher opens.
constexpr std::size_t kMaxQueued = std::size_t{1} << 20;
constexpr std::int64_t kMaxHosts = 1 << 20;

}  // namespace

bool Relay::on_frame(const Frame& frame, FrameConnection& launcher) {
  if (frame.kind < Kind::kRelayStart || frame.kind > Kind::kRelayKill) return false;
  const auto found = shells_.find(frame.rank);
  if (frame.kind == Kind::kRelayStart && found == shells_.end()) start(frame, launcher);
  if (found == shells_.end()) return true;
  Shell& shell = found->second;
  if (frame.kind == Kind::kRelayInput) feed(shell, frame.text);
  if (frame.kind == Kind::kRelayHangUp) shell.child.in = Fd();
  if (frame.kind == Kind::kRelayKill) shell.child.process.kill();
  write_some(shell.child.in, shell.input);
  return true;
}

void Relay::start(const Frame& frame, FrameConnection& launcher) {
  const auto begin = [&]() -> Result<StartedChild> {
    XOE_ASSIGN(const auto command, decode_texts(frame.text));
    std::ignore = allow_open_files(static_cast<int>(shells_.size()) + 1);  // a limit that is too low shows below
    return ChildProcess::start(command, inherited_);
  };
  auto started = begin();
  if (!started) {
    launcher.send({.kind = Kind::kRelayStderr, .rank = frame.rank, .text = started.error().message()});
    launcher.send({.kind = Kind::kRelayEnded, .rank = frame.rank, .value = kNotReached});
    return;
  }
  const auto hosts = static_cast<std::size_t>(std::clamp<std::int64_t>(frame.value, 1, kMaxHosts));
  shells_.emplace(frame.rank, Shell{.child = std::move(*started), .max_input = hosts * kMaxFrame});
}

// For each host behind a shell a job, at most half of the largest frame, and rank 0's input in its window; credits,
// signals and keepalives are small. With more than that waiting, the agent there stopped reading long ago.
void Relay::feed(Shell& shell, std::string_view bytes) {
  if (!shell.child.in.valid()) return;
  if (shell.input.size() + bytes.size() > shell.max_input) return shell.child.process.kill();
  shell.input.append(bytes);
}

void Relay::add_to(std::vector<pollfd>& polled, const FrameConnection& launcher) {
  const bool room = launcher.queued() < kMaxQueued;
  for (auto& [number, shell] : shells_) {
    shell.first = polled.size();
    const StartedChild& child = shell.child;
    polled.push_back({.fd = room ? child.out.get() : -1, .events = POLLIN, .revents = 0});
    polled.push_back({.fd = room ? child.err.get() : -1, .events = POLLIN, .revents = 0});
    polled.push_back({.fd = shell.input.empty() ? -1 : child.in.get(), .events = POLLOUT, .revents = 0});
    polled.push_back({.fd = child.process.fd(), .events = POLLIN, .revents = 0});
  }
}

// Begins with the shell that found no room last time, so that each has its turn.
void Relay::pump(const std::vector<pollfd>& polled, FrameConnection& launcher) {
  std::optional<std::int64_t> waiting;
  for (std::size_t left = shells_.size(); left > 0; --left) {
    auto at = shells_.lower_bound(next_);
    if (at == shells_.end()) at = shells_.begin();
    auto& [number, shell] = *at;
    next_ = number + 1;
    if (!read(number, shell, polled, launcher) && !waiting) waiting = number;
    if (report_end(number, shell, launcher)) shells_.erase(at);
  }
  next_ = waiting.value_or(next_);
}

// False: it has more output than there is room for.
bool Relay::read(std::int64_t number, Shell& shell, const std::vector<pollfd>& polled, FrameConnection& launcher) {
  StartedChild& child = shell.child;
  // One that was started after the poll has no entries yet.
  const auto ready = [&](std::size_t i) { return shell.first != 0 && polled[shell.first + i].revents != 0; };
  const auto room = [&] { return launcher.queued() < kMaxQueued; };
  if (ready(2)) write_some(child.in, shell.input);
  if (ready(3)) child.process.reap();
  if (ready(0) && room())
    if (const std::string bytes = read_some(child.out); !bytes.empty() || !child.out.valid())
      launcher.send({.kind = Kind::kRelayOutput, .rank = number, .text = bytes});
  if (ready(1) && room())
    if (const std::string bytes = read_some(child.err); !bytes.empty())
      launcher.send({.kind = Kind::kRelayStderr, .rank = number, .text = bytes});
  return room() || !(ready(0) || ready(1));
}

// After its last bytes. A process that it left behind may hold its stderr for as long as it likes.
bool Relay::report_end(std::int64_t number, Shell& shell, FrameConnection& launcher) {
  StartedChild& child = shell.child;
  if (child.out.valid() || !child.process.status()) return false;
  if (child.err.valid())
    if (const std::string bytes = read_some(child.err); !bytes.empty())
      launcher.send({.kind = Kind::kRelayStderr, .rank = number, .text = bytes});
  launcher.send({.kind = Kind::kRelayEnded, .rank = number, .value = *child.process.status()});
  return true;
}

void Relay::hang_up(Clock::time_point now) {
  hung_up_at_ = now;
  for (auto& [number, shell] : shells_) shell.child.in = Fd();
}

bool Relay::finished(Clock::time_point now) const {
  return shells_.empty() || (hung_up_at_ && now - *hung_up_at_ >= kEndTimeout);
}

std::vector<int> Relay::descriptors() const {
  std::vector<int> all;
  for (const auto& [number, shell] : shells_)
    for (const Fd* end : {&shell.child.in, &shell.child.out, &shell.child.err})
      if (end->valid()) all.push_back(end->get());
  return all;
}

}  // namespace xoe::remote

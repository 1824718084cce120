#include "launch/agent_relay.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <tuple>

#include "base/error.h"
#include "launch/job_streams.h"

namespace xoe::launch {
namespace {

// As ssh ends when it does not reach its host.
constexpr int kNotReached = 255 << 8;
constexpr auto kEndPatience = std::chrono::seconds(1);
// No shell is listened to while so much waits for the launcher, so that this host keeps little more however many hosts
// are behind it. All of it together is bounded by their windows, which the launcher opens.
constexpr std::size_t kMostQueued = std::size_t{1} << 20;
constexpr std::int64_t kMostHosts = 1 << 20;

}  // namespace

bool AgentRelay::take(const AgentFrame& frame, FramePipe& launcher) {
  using Kind = AgentFrame::Kind;
  if (frame.kind < Kind::kShellStart || frame.kind > Kind::kShellKill) return false;
  const auto found = shells_.find(frame.rank);
  if (frame.kind == Kind::kShellStart && found == shells_.end()) start(frame, launcher);
  if (found == shells_.end()) return true;
  Shell& shell = found->second;
  if (frame.kind == Kind::kShellInput) feed(shell, frame.text);
  if (frame.kind == Kind::kShellHangUp) shell.ends.in = Fd();
  if (frame.kind == Kind::kShellKill) shell.ends.process.kill();
  write(shell);
  return true;
}

void AgentRelay::start(const AgentFrame& frame, FramePipe& launcher) {
  const auto begin = [&]() -> Result<StartedShell> {
    XOE_ASSIGN(const auto command, decode_command(frame.text));
    std::ignore = allow_open_files(static_cast<int>(shells_.size()) + 1);  // what cannot be had shows below
    return ShellProcess::start(command, env_, mask_, open_files_);
  };
  auto started = begin();
  if (!started) {
    launcher.send({.kind = AgentFrame::Kind::kShellWords, .rank = frame.rank, .text = started.error().message()});
    launcher.send({.kind = AgentFrame::Kind::kShellEnded, .rank = frame.rank, .value = kNotReached});
    return;
  }
  const auto hosts = static_cast<std::size_t>(std::clamp<std::int64_t>(frame.value, 1, kMostHosts));
  shells_.emplace(frame.rank, Shell{.ends = std::move(*started), .most = hosts * kMaxAgentFrame});
}

// For each host behind a shell a job, at most half of the largest frame, and rank 0's input in its window; credits,
// signals and signs of life are small. With more than that the agent there has long stopped to read.
void AgentRelay::feed(Shell& shell, std::string_view bytes) {
  if (!shell.ends.in.valid()) return;
  if (shell.input.size() + bytes.size() > shell.most) return shell.ends.process.kill();
  shell.input.append(bytes);
}

void AgentRelay::write(Shell& shell) {
  std::size_t written = 0;
  while (shell.ends.in.valid() && written < shell.input.size()) {
    const auto count = ::write(shell.ends.in.get(), shell.input.data() + written, shell.input.size() - written);
    if (count >= 0)
      written += static_cast<std::size_t>(count);
    else if (errno == EAGAIN)
      break;
    else if (errno != EINTR)
      shell.ends.in = Fd();  // what it has to say comes out, and then its end
  }
  shell.input.erase(0, shell.ends.in.valid() ? written : shell.input.size());
}

void AgentRelay::add_to(std::vector<pollfd>& polled, const FramePipe& launcher) {
  const bool room = launcher.queued() < kMostQueued;
  for (auto& [number, shell] : shells_) {
    shell.first = polled.size();
    const StartedShell& ends = shell.ends;
    polled.push_back({.fd = room ? ends.out.get() : -1, .events = POLLIN, .revents = 0});
    polled.push_back({.fd = room ? ends.err.get() : -1, .events = POLLIN, .revents = 0});
    polled.push_back({.fd = shell.input.empty() ? -1 : ends.in.get(), .events = POLLOUT, .revents = 0});
    polled.push_back({.fd = ends.process.fd(), .events = POLLIN, .revents = 0});
  }
}

// Begins with the one that found no room last time, so that each has its turn.
void AgentRelay::pump(const std::vector<pollfd>& polled, FramePipe& launcher) {
  std::optional<std::int64_t> waiting;
  for (std::size_t left = shells_.size(); left > 0; --left) {
    auto at = shells_.lower_bound(turn_);
    if (at == shells_.end()) at = shells_.begin();
    auto& [number, shell] = *at;
    turn_ = number + 1;
    if (!serve(number, shell, polled, launcher) && !waiting) waiting = number;
    if (tell_end(number, shell, launcher)) shells_.erase(at);
  }
  turn_ = waiting.value_or(turn_);
}

// False: it has more to say than there is room for.
bool AgentRelay::serve(std::int64_t number, Shell& shell, const std::vector<pollfd>& polled, FramePipe& launcher) {
  StartedShell& ends = shell.ends;
  // One that was started after the poll has no entries yet.
  const auto ready = [&](std::size_t i) { return shell.first != 0 && polled[shell.first + i].revents != 0; };
  const auto room = [&] { return launcher.queued() < kMostQueued; };
  if (ready(2)) write(shell);
  if (ready(3)) ends.process.reap();
  if (ready(0) && room())
    if (const std::string bytes = read_some(ends.out); !bytes.empty() || !ends.out.valid())
      launcher.send({.kind = AgentFrame::Kind::kShellOutput, .rank = number, .text = bytes});
  if (ready(1) && room())
    if (const std::string words = read_some(ends.err); !words.empty())
      launcher.send({.kind = AgentFrame::Kind::kShellWords, .rank = number, .text = words});
  return room() || !(ready(0) || ready(1));
}

// After its last bytes. Something that it left behind may hold its stderr for as long as it likes.
bool AgentRelay::tell_end(std::int64_t number, Shell& shell, FramePipe& launcher) {
  StartedShell& ends = shell.ends;
  if (ends.out.valid() || !ends.process.status()) return false;
  if (ends.err.valid())
    if (const std::string words = read_some(ends.err); !words.empty())
      launcher.send({.kind = AgentFrame::Kind::kShellWords, .rank = number, .text = words});
  launcher.send({.kind = AgentFrame::Kind::kShellEnded, .rank = number, .value = *ends.process.status()});
  return true;
}

void AgentRelay::hang_up(Clock::time_point now) {
  hung_up_at_ = now;
  for (auto& [number, shell] : shells_) shell.ends.in = Fd();
}

bool AgentRelay::over(Clock::time_point now) const {
  return shells_.empty() || (hung_up_at_ && now - *hung_up_at_ >= kEndPatience);
}

std::vector<int> AgentRelay::descriptors() const {
  std::vector<int> all;
  for (const auto& [number, shell] : shells_)
    for (const Fd* end : {&shell.ends.in, &shell.ends.out, &shell.ends.err})
      if (end->valid()) all.push_back(end->get());
  return all;
}

}  // namespace xoe::launch

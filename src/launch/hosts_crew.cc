#include "launch/hosts_crew.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace xoe::launch {
namespace {

constexpr auto kClosingTurn = std::chrono::milliseconds(50);
constexpr auto kBackgroundTurn = std::chrono::milliseconds(300);
constexpr int kPausePatienceMs = 500;
// Output that was taken is told in pieces of at least this size.
constexpr std::int64_t kCreditPiece = kOutputWindow / 4;

}  // namespace

HostsCrew::HostsCrew(const RunOptions& options, HostLinks links, std::vector<Stream> streams, Output& output)
    : options_(options),
      output_(output),
      links_(std::move(links)),
      members_(links_.size()),
      host_of_(streams.size() / 2),
      streams_(std::move(streams)),
      left_(links_.size()) {
  for (std::size_t host = 0; host < links_.size(); ++host) {
    members_[host].unfinished = static_cast<int>(links_[host]->share().ranks.size());
    for (const AgentRank& rank : links_[host]->share().ranks) host_of_[static_cast<std::size_t>(rank.rank)] = host;
    if (const auto relay = links_[host]->share().relay) ++members_[*relay].behind;
    links_[host]->pipe().forgive();
  }
}

void HostsCrew::tell_all(const AgentFrame& frame) {
  for (std::size_t host = 0; host < links_.size(); ++host) {
    if (!members_[host].needed()) continue;
    links_[host]->pipe().send(frame);
    links_[host]->write();
  }
}

void HostsCrew::send(GuardianCommand command) {
  switch (command.kind) {
    case GuardianCommand::Kind::kKillAll: return tell_all({.kind = AgentFrame::Kind::kKill});
    case GuardianCommand::Kind::kSignal: return tell_all({.kind = AgentFrame::Kind::kSignal, .value = command.signal});
    case GuardianCommand::Kind::kSettled: return tell_all({.kind = AgentFrame::Kind::kSettled});
    case GuardianCommand::Kind::kRestart: return restart(command.rank);
  }
}

void HostsCrew::restart(int rank) {
  const std::size_t host = host_of_[static_cast<std::size_t>(rank)];
  if (members_[host].gone) return;
  ++members_[host].unfinished;
  links_[host]->pipe().send({.kind = AgentFrame::Kind::kRestart, .rank = rank});
  links_[host]->write();
}

std::optional<GuardianEvent> HostsCrew::next() {
  if (events_.empty()) return std::nullopt;
  const GuardianEvent event = events_.front();
  events_.pop_front();
  return event;
}

void HostsCrew::pause() {
  tell_all({.kind = AgentFrame::Kind::kPause});
  for (auto& link : links_) {
    if (!link->pipe().wants_to_write()) continue;
    pollfd entry{.fd = link->pipe().out(), .events = POLLOUT, .revents = 0};
    ::poll(&entry, 1, kPausePatienceMs);
    link->write();
  }
}

void HostsCrew::resume() {
  for (auto& link : links_) link->pipe().forgive();
  tell_all({.kind = AgentFrame::Kind::kAlive});
}

bool HostsCrew::output_open(Clock::time_point /*now*/) {
  for (Stream& stream : streams_) stream.close();
  return false;
}

std::vector<std::string> HostsCrew::file_errors() const {
  std::vector<std::string> errors;
  for (const Stream& stream : streams_)
    if (!stream.file_error().empty()) errors.push_back(stream.file_error());
  return errors;
}

std::string HostsCrew::host_of(int rank) const { return links_[host_of_[static_cast<std::size_t>(rank)]]->name(); }

void HostsCrew::add_to(std::vector<pollfd>& polled) {
  for (auto& link : links_) link->add_to(polled);
  input_.add_to(polled);
}

void HostsCrew::take(const std::vector<pollfd>& polled, Clock::time_point now) {
  HostLink& reader = *links_[host_of_[0]];
  input_.pump(polled, reader.pipe());
  for (std::size_t host = 0; host < links_.size(); ++host) {
    links_[host]->pump(polled);
    if (members_[host].needed()) listen_to(host, now);
    links_[host]->write();
  }
}

void HostsCrew::listen_to(std::size_t host, Clock::time_point now) {
  HostLink& link = *links_[host];
  while (members_[host].needed()) {
    const auto frame = link.pipe().next();
    if (!frame) link.kill();  // no agent talks like this
    if (!frame || !*frame) break;
    on_frame(host, **frame);
  }
  if (!members_[host].needed()) return;
  if (link.over(now)) return lose(host, explain_cut(link, options_.where));
  link.pipe().keep_alive(now, alive_interval(options_.where.host_timeout));
  if (const auto silence = link.silence(now); !link.pipe().closed() && silence >= options_.where.host_timeout)
    lose(host, explain_silence(link, silence));
}

bool HostsCrew::owns(std::size_t host, std::int64_t rank) const {
  return rank >= 0 && std::cmp_less(rank, host_of_.size()) && host_of_[static_cast<std::size_t>(rank)] == host;
}

void HostsCrew::on_frame(std::size_t host, const AgentFrame& frame) {
  if (pass_on(links_, *links_[host], frame) || members_[host].gone) return;
  using Kind = AgentFrame::Kind;
  const int rank = static_cast<int>(frame.rank);
  const int value = static_cast<int>(frame.value);
  switch (frame.kind) {
    case Kind::kOutput: return on_output(host, frame);
    case Kind::kEnded:
      if (!owns(host, frame.rank)) return;
      --members_[host].unfinished;
      events_.push_back({.kind = GuardianEvent::Kind::kEnded,
                         .rank = rank,
                         .pid = static_cast<pid_t>(frame.pid),
                         .value = value,
                         .ran = std::chrono::nanoseconds(frame.time)});
      return;
    case Kind::kStartFailed:
      if (owns(host, frame.rank))
        events_.push_back({.kind = GuardianEvent::Kind::kStartFailed, .rank = rank, .value = value});
      return;
    case Kind::kInputTaken: return input_.taken(frame.value);
    case Kind::kInputClosed: return input_.close();
    case Kind::kAllGone: guardian_lost_ = guardian_lost_ || value == 1; return leave(host);
    case Kind::kError: return lose(host, explain_refusal(*links_[host], frame.text, value));
    default: return;
  }
}

void HostsCrew::on_output(std::size_t host, const AgentFrame& frame) {
  if (!owns(host, frame.rank)) return;
  const auto rank = static_cast<std::size_t>(frame.rank);
  streams_[2 * rank + (frame.value == 1 ? 1 : 0)].feed(frame.text);
  members_[host].owed += static_cast<std::int64_t>(frame.text.size());
  if (members_[host].owed > kOutputWindow) links_[host]->kill();  // no agent of ours goes on without being told
}

// Those behind it are lost with it, the farthest first.
void HostsCrew::lose(std::size_t host, HostFailure failure) {
  std::vector<std::string> behind;
  for (std::size_t other = links_.size(); --other > host;)
    if (!members_[other].gone && is_behind(*links_[other], *links_[host])) {
      behind.insert(behind.begin(), links_[other]->name());
      events_.push_back(
          {.kind = GuardianEvent::Kind::kHostLost, .value = std::exchange(members_[other].unfinished, 0)});
      leave(other);
    }
  if (!behind.empty()) failure.lines.push_back(explain_behind(*links_[host], behind));
  failures_.insert(failures_.end(), failure.lines.begin(), failure.lines.end());
  events_.push_back({.kind = GuardianEvent::Kind::kHostLost, .value = std::exchange(members_[host].unfinished, 0)});
  links_[host]->kill();
  leave(host);
}

void HostsCrew::leave(std::size_t host) {
  if (members_[host].gone) return;
  members_[host].gone = true;
  for (const AgentRank& rank : links_[host]->share().ranks)
    for (const bool err : {false, true}) streams_[2 * static_cast<std::size_t>(rank.rank) + (err ? 1 : 0)].close();
  if (host == host_of_[0]) input_.close();
  part(host);
  if (--left_ == 0) events_.push_back({.kind = GuardianEvent::Kind::kAllGone});
}

// Hangs up when nobody needs its agent any longer, and then on its relay if that holds for it as well.
void HostsCrew::part(std::size_t host) {
  if (members_[host].needed()) return;
  links_[host]->hang_up();
  const auto relay = links_[host]->share().relay;
  if (!relay) return;
  --members_[*relay].behind;
  part(*relay);
}

// An agent may send more when the reader of our output has taken what it sent.
void HostsCrew::pump() {
  if (output_.out().full() || output_.err().full()) return;
  for (std::size_t host = 0; host < links_.size(); ++host) {
    Member& member = members_[host];
    if (member.gone || member.owed < kCreditPiece) continue;
    links_[host]->pipe().send({.kind = AgentFrame::Kind::kCredit, .value = std::exchange(member.owed, 0)});
    links_[host]->write();
  }
}

std::optional<HostsCrew::Clock::time_point> HostsCrew::next_turn(Clock::time_point now) const {
  if (left_ == 0) return std::nullopt;
  std::chrono::nanoseconds patience = alive_interval(options_.where.host_timeout) / 2;
  if (input_.in_background()) patience = std::min<std::chrono::nanoseconds>(patience, kBackgroundTurn);
  for (std::size_t host = 0; host < links_.size(); ++host)
    if (members_[host].needed() && links_[host]->pipe().closed())
      patience = std::min<std::chrono::nanoseconds>(patience, kClosingTurn);
  return now + patience;
}

}  // namespace xoe::launch

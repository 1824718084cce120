#include "launch/agents/remote_processes.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "launch/output/job_streams.h"
#include "launch/plan/cores.h"

namespace xoe::launch {
namespace {

constexpr auto kClosingTurn = std::chrono::milliseconds(50);
constexpr int kPauseTimeoutMs = 500;
// Output that was taken is acknowledged when it amounts to this.
constexpr std::int64_t kCreditBytes = remote::kOutputWindow / 4;
// For ranks of a host that is no longer named: until the end of a step, and of what they have to hand over.
constexpr int kLeaveSeconds = 60;
constexpr std::size_t kNoHost = SIZE_MAX;
constexpr std::size_t kLongestReason = 300;
constexpr std::chrono::milliseconds kLongestNotice = std::chrono::hours(24 * 7);

bool ends_job(std::int64_t signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGQUIT || signal == SIGHUP;
}

std::string ranks_text(const HostShare& share) {
  std::vector<int> ranks;
  for (const AgentRank& rank : share.ranks) ranks.push_back(rank.rank);
  return fmt::format("  its ranks: {}", cpu_list_text(std::move(ranks)));
}

}  // namespace

RemoteProcesses::RemoteProcesses(const RunOptions& options, std::vector<HostShare> shares,
                                 remote::AgentConnections& agents, std::vector<bool> there, std::vector<Stream> streams,
                                 Output& output, std::unique_ptr<ElasticHosts> elastic)
    : options_(options),
      connect_(options.where.connect),
      output_(output),
      shares_(std::move(shares)),
      agents_(agents),
      hosts_(agents_.size()),
      host_of_(streams.size() / 2),
      streams_(std::move(streams)),
      input_(output.out()),
      samples_(streams_.size() / 2),
      elastic_(std::move(elastic)) {
  for (std::size_t host = 0; host < agents_.size(); ++host) {
    hosts_[host].unfinished = started_of(shares_[host], options);
    for (const AgentRank& rank : shares_[host].ranks) host_of_[static_cast<std::size_t>(rank.rank)] = host;
    if (const auto relay = shares_[host].relay) ++hosts_[*relay].behind;
    agents_[host]->frames().reset_silence();
    if (there[host]) {
      ++remaining_;
      continue;
    }
    hosts_[host].gone = true;
    for (const AgentRank& rank : shares_[host].ranks) close_streams(rank.rank);
    if (!elastic_) continue;
    failures_.push_back(elastic_->leave_out(shares_[host].host.name, Clock::now()));
    if (agents_[host]->method() == remote::LaunchMethod::kJoined) part_from(host);
  }
  if (!there[host_of_[0]]) input_.close();
}

void RemoteProcesses::send_to_all(const remote::Frame& frame) {
  for (std::size_t host = 0; host < agents_.size(); ++host) {
    if (!hosts_[host].needed()) continue;
    agents_[host]->frames().send(frame);
    agents_[host]->write();
  }
}

void RemoteProcesses::send(SupervisorCommand command) {
  switch (command.kind) {
    case SupervisorCommand::Kind::kEnd: return send_to_all({.kind = remote::Frame::Kind::kEnd});
    case SupervisorCommand::Kind::kKillAll:
      if (elastic_) elastic_->stop();
      return send_to_all({.kind = remote::Frame::Kind::kKill});
    case SupervisorCommand::Kind::kSignal:
      return send_to_all({.kind = remote::Frame::Kind::kSignal, .value = command.signal});
    case SupervisorCommand::Kind::kNoMoreRestarts:
      if (elastic_) elastic_->stop();
      return send_to_all({.kind = remote::Frame::Kind::kNoMoreRestarts});
    case SupervisorCommand::Kind::kRestart: return send_to_rank(remote::Frame::Kind::kRestart, command.rank);
    case SupervisorCommand::Kind::kSignalRank:
      return send_to_rank(remote::Frame::Kind::kSignalRank, command.rank, command.signal);
    case SupervisorCommand::Kind::kReport: return ask_for_news();
  }
}

void RemoteProcesses::send_to_rank(remote::Frame::Kind kind, int rank, int value) {
  const std::size_t host = host_of_[static_cast<std::size_t>(rank)];
  if (host == kNoHost || hosts_[host].gone) return;
  if (kind == remote::Frame::Kind::kRestart) ++hosts_[host].unfinished;
  agents_[host]->frames().send({.kind = kind, .rank = rank, .value = value});
  agents_[host]->write();
}

void RemoteProcesses::publish_world(int version, std::span<const int> slots) {
  const std::string text = fmt::format("{}", fmt::join(slots, ","));
  send_to_all({.kind = remote::Frame::Kind::kWorld, .value = version, .text = text});
}

std::vector<int> RemoteProcesses::slots_of(std::size_t host) const {
  std::vector<int> slots;
  for (const AgentRank& rank : shares_[host].ranks) slots.push_back(rank.rank);
  return slots;
}

void RemoteProcesses::release_host(std::size_t host) {
  if (hosts_[host].gone || std::exchange(hosts_[host].leaving, true)) return;
  agents_[host]->frames().send({.kind = remote::Frame::Kind::kNoMoreRestarts});
  agents_[host]->frames().send({.kind = remote::Frame::Kind::kKill});  // what its ranks, which have ended, left running
  agents_[host]->write();
}

std::optional<SupervisorEvent> RemoteProcesses::next() {
  if (events_.empty()) return std::nullopt;
  const SupervisorEvent event = events_.front();
  events_.pop_front();
  return event;
}

void RemoteProcesses::ask_for_news() {
  for (std::size_t host = 0; host < agents_.size(); ++host) {
    if (hosts_[host].gone || hosts_[host].asked) continue;
    hosts_[host].asked = Clock::now();
    agents_[host]->frames().send({.kind = remote::Frame::Kind::kReport});
    agents_[host]->write();
  }
}

void RemoteProcesses::pause() {
  send_to_all({.kind = remote::Frame::Kind::kPause});
  for (auto& agent : agents_) {
    if (!agent->frames().wants_to_write()) continue;
    pollfd entry{.fd = agent->frames().out(), .events = POLLOUT, .revents = 0};
    ::poll(&entry, 1, kPauseTimeoutMs);
    agent->write();
  }
}

void RemoteProcesses::resume() {
  looked_ = Clock::now();
  for (auto& agent : agents_) agent->frames().reset_silence();
  send_to_all({.kind = remote::Frame::Kind::kAlive});
}

bool RemoteProcesses::output_open(Clock::time_point /*now*/) {
  for (Stream& stream : streams_) stream.close();
  return false;
}

std::string RemoteProcesses::host_of(int rank) const {
  const std::size_t host = host_index(rank);
  return host == kNoHost ? "?" : agents_[host]->host();
}

void RemoteProcesses::add_to(std::vector<pollfd>& polled) {
  for (auto& agent : agents_) agent->add_to(polled);
  input_.add_to(polled);
  if (elastic_) elastic_->add_to(polled);
}

// Where this process stood still, because its machine was suspended or overloaded, the silence is its own.
void RemoteProcesses::notice_standstill(Clock::time_point now) {
  const auto still = now - std::exchange(looked_, now);
  if (still < connect_.host_timeout / 2) return;
  for (std::size_t host = 0; host < agents_.size(); ++host)
    if (hosts_[host].needed()) agents_[host]->frames().reset_silence();
  failures_.push_back(
      fmt::format("this launcher stood still for {}: its machine was suspended, or had too much to do. Hosts that hear "
                  "nothing for {} (--host-timeout) end their ranks",
                  human_seconds(still), human_seconds(connect_.host_timeout)));
  events_.push_back({.kind = SupervisorEvent::Kind::kNews, .at = now});
}

void RemoteProcesses::take(const std::vector<pollfd>& polled, Clock::time_point now) {
  notice_standstill(now);
  input_.pump(polled, agents_[host_of_[0]]->frames());
  for (std::size_t host = 0; host < agents_.size(); ++host) {
    agents_[host]->pump(polled);
    if (hosts_[host].needed())
      serve(host, now);
    else if (agents_[host]->method() == remote::LaunchMethod::kJoined)
      agents_[host]->frames().keep_alive(now, remote::keepalive_interval(connect_.host_timeout));
    agents_[host]->write();
  }
  if (elastic_) {
    elastic_->pump(polled, now);
    take_newcomers(now);
  }
}

void RemoteProcesses::take_newcomers(Clock::time_point now) {
  for (ElasticHosts::Came& came : elastic_->take_ready()) take_in(std::move(came));
  for (const std::string& name : elastic_->take_unwanted())
    for (std::size_t host = 0; host < shares_.size(); ++host)
      if (shares_[host].host.name == name && !hosts_[host].gone)
        events_.push_back({.kind = SupervisorEvent::Kind::kHostGoes, .value = kLeaveSeconds, .at = now, .host = host});
  for (const std::string& name : elastic_->take_named_again())
    for (std::size_t host = 0; host < shares_.size(); ++host)
      if (shares_[host].host.name == name && !hosts_[host].gone)
        events_.push_back({.kind = SupervisorEvent::Kind::kHostStays, .at = now, .host = host});
  for (std::string& line : elastic_->take_news()) failures_.push_back(std::move(line));
  if (!failures_.empty()) events_.push_back({.kind = SupervisorEvent::Kind::kNews, .at = now});
}

// A host has the same number as the one that had its slots before, which may have had another name.
void RemoteProcesses::take_in(ElasticHosts::Came came) {
  const auto known = std::ranges::find(shares_, came.share.ranks.front().rank,
                                       [](const HostShare& share) { return share.ranks.front().rank; });
  const auto host = static_cast<std::size_t>(known - shares_.begin());
  const bool again = known != shares_.end();
  if (!again) {
    shares_.push_back(std::move(came.share));
    agents_.push_back(std::move(came.agent));
    hosts_.emplace_back();
  } else {
    if (!hosts_[host].gone)
      lose_host(
          host,
          {.lines = {fmt::format("host {}: lost: another process has joined in its place", agents_[host]->host())}});
    elastic_->note_there(came.share.host.name);
    *known = std::move(came.share);
    agents_[host] = std::move(came.agent);
    hosts_[host] = HostProgress();
  }
  ++remaining_;
  for (const AgentRank& rank : shares_[host].ranks) {
    make_room(rank.rank + 1);
    const auto slot = static_cast<std::size_t>(rank.rank);
    host_of_[slot] = host;
    for (const bool err : {false, true}) {
      auto file = open_output_file(options_, rank.rank, err, again);
      if (!file) failures_.push_back(file.error().message());
      streams_[2 * slot + (err ? 1 : 0)] =
          stream_to(options_, rank.rank, err, output_, Fd(), file ? std::move(*file) : OutputFile());
    }
  }
  events_.push_back({.kind = SupervisorEvent::Kind::kHostCame, .at = Clock::now(), .host = host});
}

void RemoteProcesses::make_room(int slots) {
  for (int slot = this->slots(); slot < slots; ++slot) {
    host_of_.push_back(kNoHost);
    samples_.emplace_back();
    for (const bool err : {false, true}) streams_.push_back(stream_to(options_, slot, err, output_));
  }
}

void RemoteProcesses::close_streams(int rank) {
  for (const bool err : {false, true}) streams_[2 * static_cast<std::size_t>(rank) + (err ? 1 : 0)].close();
}

void RemoteProcesses::serve(std::size_t host, Clock::time_point now) {
  remote::AgentConnection& agent = *agents_[host];
  while (hosts_[host].needed()) {
    const auto frame = agent.frames().next();
    if (!frame) agent.kill();  // not an agent
    if (!frame || !*frame) break;
    on_frame(host, **frame, now);
  }
  if (!hosts_[host].needed()) return;
  if (agent.ended(now)) return lose_host(host, remote::explain_cut(agent, connect_));
  agent.frames().keep_alive(now, remote::keepalive_interval(connect_.host_timeout));
  if (const auto silence = agent.silence(now); !agent.frames().closed() && silence >= connect_.host_timeout)
    lose_host(host, remote::explain_silence(agent, silence));
}

bool RemoteProcesses::owns(std::size_t host, std::int64_t rank) const {
  return rank >= 0 && std::cmp_less(rank, host_of_.size()) && host_of_[static_cast<std::size_t>(rank)] == host;
}

void RemoteProcesses::on_frame(std::size_t host, const remote::Frame& frame, Clock::time_point now) {
  if (remote::dispatch_relay_frame(agents_, *agents_[host], frame) || hosts_[host].gone) return;
  using Kind = remote::Frame::Kind;
  const int value = static_cast<int>(frame.value);
  if (frame.time != 0) hosts_[host].clock.observe(std::chrono::nanoseconds(frame.time), now);
  switch (frame.kind) {
    case Kind::kOutput: return on_output(host, frame);
    case Kind::kEnded: return on_ended(host, frame);
    case Kind::kStartFailed:
      if (!owns(host, frame.rank)) return;
      --hosts_[host].unfinished;
      events_.push_back({.kind = SupervisorEvent::Kind::kStartFailed,
                         .rank = static_cast<int>(frame.rank),
                         .value = value,
                         .at = now,
                         .host = host});
      return;
    case Kind::kSupervisorLost:
      if (elastic_) {
        hosts_[host].failed = true;
        failures_.push_back(
            fmt::format("host {}: the process that supervises its ranks was killed", agents_[host]->host()));
        failures_.push_back(elastic_->leave_out(shares_[host].host.name, now));
        elastic_->note_ending(shares_[host].host.name);
      }
      events_.push_back({.kind = SupervisorEvent::Kind::kSupervisorLost,
                         .value = std::exchange(hosts_[host].unfinished, 0),
                         .at = event_time(host, frame.time),
                         .host = host});
      return;
    case Kind::kStatus: return on_status(host, frame);
    case Kind::kSignalled:
      if (ends_job(frame.value))
        events_.push_back({.kind = SupervisorEvent::Kind::kSignalled, .value = value, .at = now, .host = host});
      return;
    case Kind::kDeparting: return on_departing(host, frame, now);
    case Kind::kInputTaken: return input_.taken(frame.value);
    case Kind::kInputClosed: return input_.close();
    case Kind::kReported: return on_reported(host, now);
    case Kind::kAllGone:
      hosts_[host].all_gone = true;
      if (!hosts_[host].asked) mark_gone(host);
      return;
    case Kind::kError: return lose_host(host, remote::explain_refusal(*agents_[host], frame.text, value));
    default: return;
  }
}

RemoteProcesses::Clock::time_point RemoteProcesses::event_time(std::size_t host, std::int64_t stamp) {
  const auto at = hosts_[host].clock.here(std::chrono::nanoseconds(stamp));
  const Clock::duration offset = at.time_since_epoch() - std::chrono::nanoseconds(stamp);
  hosts_[host].offset = std::max(hosts_[host].offset.value_or(offset), offset);
  return at;
}

// The round trip bounds the error of the clock as it is known now; the times of events were reckoned by what was known
// before.
void RemoteProcesses::on_reported(std::size_t host, Clock::time_point now) {
  HostProgress& progress = hosts_[host];
  const auto asked = std::exchange(progress.asked, std::nullopt);
  if (!asked) return;
  const Clock::duration offset = progress.clock.here({}).time_since_epoch();
  progress.lateness = now - *asked + (progress.offset.value_or(offset) - offset);
  if (progress.all_gone) mark_gone(host);
}

void RemoteProcesses::on_departing(std::size_t host, const remote::Frame& frame, Clock::time_point now) {
  if (!elastic_) return;
  failures_.push_back(
      fmt::format("host {}: {}", agents_[host]->host(), printable_utf8(shortened_utf8(frame.text, kLongestReason))));
  events_.push_back({.kind = SupervisorEvent::Kind::kNews, .at = now});
  if (frame.value < 0) return;
  elastic_->exclude(shares_[host].host.name);
  const auto left = std::chrono::milliseconds(std::min<std::int64_t>(frame.value, kLongestNotice.count()));
  events_.push_back({.kind = SupervisorEvent::Kind::kHostGoes, .at = now + left, .host = host});
}

void RemoteProcesses::on_ended(std::size_t host, const remote::Frame& frame) {
  const auto ending = remote::decode_ending(frame.text);
  if (!owns(host, frame.rank) || !ending) return;
  --hosts_[host].unfinished;
  events_.push_back({.kind = SupervisorEvent::Kind::kEnded,
                     .rank = static_cast<int>(frame.rank),
                     .pid = static_cast<pid_t>(frame.pid),
                     .value = static_cast<int>(frame.value),
                     .ran = std::chrono::nanoseconds(ending->ran),
                     .asked = ending->asked,
                     .at = event_time(host, frame.time),
                     .host = host});
}

void RemoteProcesses::on_output(std::size_t host, const remote::Frame& frame) {
  if (!owns(host, frame.rank)) return;
  const auto rank = static_cast<std::size_t>(frame.rank);
  streams_[2 * rank + (frame.value == 1 ? 1 : 0)].feed(frame.text);
  hosts_[host].owed += static_cast<std::int64_t>(frame.text.size());
  if (hosts_[host].owed > remote::kOutputWindow) agents_[host]->kill();  // an agent of ours waits for credit
}

void RemoteProcesses::on_status(std::size_t host, const remote::Frame& frame) {
  const auto facts = bootstrap::decode_facts(frame.text);
  const auto& ranks = shares_[host].ranks;
  if (!facts || facts->size() != ranks.size()) return agents_[host]->kill();  // not an agent
  const auto at = hosts_[host].clock.here(std::chrono::nanoseconds(frame.time));
  for (std::size_t i = 0; i < ranks.size(); ++i)
    samples_[static_cast<std::size_t>(ranks[i].rank)] = {.at = at, .facts = (*facts)[i]};
}

// The hosts behind it are lost with it, the farthest first.
void RemoteProcesses::lose_host(std::size_t host, remote::HostFailure failure) {
  // All its ranks had ended: only its answer to kReport is missing, or its own end.
  if ((hosts_[host].all_gone || hosts_[host].leaving || hosts_[host].failed) && hosts_[host].behind == 0) {
    agents_[host]->kill();
    return mark_gone(host);
  }
  std::vector<std::string> behind;
  const auto lost = [this](std::size_t one) {
    events_.push_back({.kind = SupervisorEvent::Kind::kHostLost,
                       .value = std::exchange(hosts_[one].unfinished, 0),
                       .at = agents_[one]->frames().heard(),
                       .host = one});
  };
  for (std::size_t other = agents_.size(); --other > host;)
    if (!hosts_[other].gone && agents_[other]->is_behind(*agents_[host])) {
      if (hosts_[other].all_gone) {
        mark_gone(other);
        continue;
      }
      behind.insert(behind.begin(), agents_[other]->host());
      lost(other);
      mark_gone(other);
    }
  if (!behind.empty()) failure.lines.push_back(remote::explain_behind(*agents_[host], behind));
  failure.lines.push_back(ranks_text(shares_[host]));
  if (elastic_ && !hosts_[host].leaving)
    failure.lines.push_back(elastic_->leave_out(shares_[host].host.name, Clock::now()));
  failures_.insert(failures_.end(), failure.lines.begin(), failure.lines.end());
  lost(host);
  agents_[host]->kill();
  mark_gone(host);
}

void RemoteProcesses::mark_gone(std::size_t host) {
  if (hosts_[host].gone) return;
  hosts_[host].gone = true;
  for (const AgentRank& rank : shares_[host].ranks) close_streams(rank.rank);
  if (elastic_ && (hosts_[host].leaving || hosts_[host].failed)) elastic_->note_gone(shares_[host].host.name);
  if (host == host_of_[0]) input_.close();
  disconnect_unneeded(host);
  if (--remaining_ == 0) events_.push_back({.kind = SupervisorEvent::Kind::kAllGone});
}

// An agent that joined need not wait for the end of the job: it, or the next one on its host, may join again.
void RemoteProcesses::part_from(std::size_t host) {
  const bool left = hosts_[host].leaving;
  agents_[host]->frames().send({.kind = remote::Frame::Kind::kOutcome,
                                .value = left ? remote::kHasLeft : remote::kIsLost,
                                .text = left ? "this host has left the job" : "the job goes on without this host"});
  agents_[host]->write();
}

// Hangs up on the host's agent when it is not needed any longer, and then on its relay if that holds for it as well.
void RemoteProcesses::disconnect_unneeded(std::size_t host) {
  if (hosts_[host].needed()) return;
  if (agents_[host]->method() != remote::LaunchMethod::kJoined) agents_[host]->hang_up();
  if (agents_[host]->method() == remote::LaunchMethod::kJoined && elastic_ && !elastic_->stopped()) part_from(host);
  const auto relay = shares_[host].relay;
  if (!relay) return;
  --hosts_[*relay].behind;
  disconnect_unneeded(*relay);
}

// Agents get credit for more output when our own output was taken.
void RemoteProcesses::pump() {
  for (Stream& stream : streams_) stream.flush_bar(Clock::now());
  if (output_.out().full() || output_.err().full()) return;
  for (std::size_t host = 0; host < agents_.size(); ++host) {
    HostProgress& progress = hosts_[host];
    if (progress.gone || progress.owed < kCreditBytes) continue;
    agents_[host]->frames().send({.kind = remote::Frame::Kind::kCredit, .value = std::exchange(progress.owed, 0)});
    agents_[host]->write();
  }
}

std::optional<RemoteProcesses::Clock::time_point> RemoteProcesses::next_turn(Clock::time_point now) const {
  // Agents that joined wait for the outcome, and hear that this one is there.
  const auto waits = [](const auto& agent) {
    return agent->method() == remote::LaunchMethod::kJoined && !agent->frames().closed();
  };
  if (remaining_ == 0 && std::ranges::none_of(agents_, waits)) return std::nullopt;
  std::chrono::nanoseconds timeout = remote::keepalive_interval(connect_.host_timeout) / 2;
  if (input_.in_background()) timeout = std::min<std::chrono::nanoseconds>(timeout, kBackgroundTurn);
  for (std::size_t host = 0; host < agents_.size(); ++host)
    if (hosts_[host].needed() && agents_[host]->frames().closed())
      timeout = std::min<std::chrono::nanoseconds>(timeout, kClosingTurn);
  auto next = now + timeout;
  if (const auto flush = first_flush(streams_)) next = std::min(*flush, next);
  if (const auto turn = elastic_ ? elastic_->next_turn() : std::nullopt) next = std::min(*turn, next);
  return next;
}

}  // namespace xoe::launch

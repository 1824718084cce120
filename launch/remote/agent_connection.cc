#include "launch/remote/agent_connection.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "launch/remote/child_process.h"

namespace xoe::remote {
namespace {

using Kind = Frame::Kind;

constexpr std::size_t kStderrBytes = 4096;
// From the end of the frames to that of the shell.
constexpr auto kShellTimeout = std::chrono::seconds(1);
constexpr auto kDisconnectTimeout = std::chrono::milliseconds(1500);
constexpr auto kOutcomeTimeout = std::chrono::seconds(2);
// Of one relayed frame: others have their turn in between.
constexpr std::size_t kRelayChunk = std::size_t{64} << 10;

class DirectConnection : public AgentConnection {
 public:
  DirectConnection(const std::string& host, LaunchMethod method, StartedChild child)
      : AgentConnection(host, method, nullptr, FrameConnection(std::move(child.out), std::move(child.in), true)),
        process_(std::move(child.process)),
        stderr_(std::move(child.err)) {}

  void add_to(std::vector<pollfd>& polled) override {
    first_ = polled.size();
    polled.push_back({.fd = frames().in(), .events = POLLIN, .revents = 0});
    polled.push_back({.fd = frames().wants_to_write() ? frames().out() : -1, .events = POLLOUT, .revents = 0});
    polled.push_back({.fd = stderr_.get(), .events = POLLIN, .revents = 0});
    polled.push_back({.fd = process_.fd(), .events = POLLIN, .revents = 0});
  }
  void pump(const std::vector<pollfd>& polled) override {
    if (polled[first_].revents != 0) frames().read();
    if (polled[first_ + 1].revents != 0) frames().write();
    if (polled[first_ + 2].revents != 0) add_stderr(read_some(stderr_));
    if (polled[first_ + 3].revents != 0) process_.reap();
  }
  void write() override { frames().write(); }
  void hang_up() override { frames().close(); }
  void kill() override {
    frames().close();
    process_.kill();
  }
  const std::optional<int>& status() const noexcept override { return process_.status(); }

 private:
  void drain_stderr() override {
    while (stderr_.valid()) {
      const std::string bytes = read_some(stderr_);
      if (bytes.empty()) break;
      add_stderr(bytes);
    }
  }

  ChildProcess process_;
  Fd stderr_;
  std::size_t first_ = 0;  // of our four entries in `polled`
};

class JoinedConnection : public AgentConnection {
 public:
  JoinedConnection(const std::string& host, FrameConnection frames)
      : AgentConnection(host, LaunchMethod::kJoined, nullptr, std::move(frames)) {}

  void add_to(std::vector<pollfd>& polled) override {
    first_ = polled.size();
    polled.push_back({.fd = frames().in(), .events = POLLIN, .revents = 0});
    polled.push_back({.fd = frames().wants_to_write() ? frames().out() : -1, .events = POLLOUT, .revents = 0});
  }
  void pump(const std::vector<pollfd>& polled) override {
    if (polled[first_].revents != 0) frames().read();
    if (polled[first_ + 1].revents != 0) frames().write();
  }
  void write() override { frames().write(); }
  void hang_up() override { frames().close(); }
  void kill() override { frames().close(); }
  // There is no shell to wait for.
  const std::optional<int>& status() const noexcept override { return frames().closed() ? ended_ : running_; }

 private:
  std::size_t first_ = 0;  // of our two entries in `polled`
  std::optional<int> running_;
  std::optional<int> ended_ = 0;
};

class RelayedConnection : public AgentConnection {
 public:
  RelayedConnection(AgentConnection& relay, const std::string& host, LaunchMethod method, std::size_t number,
                    std::size_t hosts, std::vector<std::string> command)
      : AgentConnection(host, method, &relay, FrameConnection(true)),
        carrier_(relay),
        number_(static_cast<std::int64_t>(number)),
        hosts_(static_cast<std::int64_t>(hosts)),
        command_(std::move(command)) {}

  void open() override {
    frames().reset_silence();
    send(Kind::kRelayStart, encode_texts(command_));
  }
  void on_relay_frame(const Frame& frame) override {
    switch (frame.kind) {
      case Kind::kRelayOutput: return frame.text.empty() ? frames().end() : frames().feed(frame.text);
      case Kind::kRelayStderr: return add_stderr(frame.text);
      case Kind::kRelayEnded: status_ = static_cast<int>(frame.value); return frames().end();
      default: return;
    }
  }
  void write() override {
    if (!frames().wants_to_write()) return;
    const std::string bytes = frames().take();
    for (std::size_t at = 0; at < bytes.size(); at += kRelayChunk)
      send(Kind::kRelayInput, std::string_view(bytes).substr(at, kRelayChunk));
    carrier_.write();
  }
  void hang_up() override { close(Kind::kRelayHangUp); }
  void kill() override { close(Kind::kRelayKill); }
  const std::optional<int>& status() const noexcept override { return status_; }

 private:
  void send(Kind kind, std::string_view text = {}) {
    carrier_.frames().send({.kind = kind, .rank = number_, .value = hosts_, .text = text});
  }
  void close(Kind kind) {
    frames().close();
    send(kind);
    carrier_.write();
  }

  AgentConnection& carrier_;
  std::int64_t number_;
  std::int64_t hosts_;
  std::vector<std::string> command_;
  std::optional<int> status_;
};

}  // namespace

bool AgentConnection::is_behind(const AgentConnection& relay) const {
  for (const AgentConnection* at = relay_; at != nullptr; at = at->relay_)
    if (at == &relay) return true;
  return false;
}

void AgentConnection::add_stderr(std::string_view bytes) {
  stderr_tail_.append(bytes);
  if (stderr_tail_.size() > kStderrBytes) stderr_tail_.erase(0, stderr_tail_.size() - kStderrBytes);
}

bool AgentConnection::ended(Clock::time_point now) {
  if (!frames_.closed()) return false;
  if (!closed_at_) closed_at_ = now;
  drain_stderr();
  return status() || now - *closed_at_ >= kShellTimeout;
}

std::chrono::nanoseconds AgentConnection::silence(Clock::time_point now) const {
  return (relay_ == nullptr ? now : relay_->frames().heard()) - frames_.heard();
}

Result<std::unique_ptr<AgentConnection>> connect_agent(const std::string& host, LaunchMethod method,
                                                       const ConnectOptions& options, const Inherited& inherited) {
  auto child = ChildProcess::start(agent_command(host, method, options, false), inherited);
  if (!child) return failure(child.error().code(), "host {}: {}", host, child.error().message());
  return std::make_unique<DirectConnection>(host, method, std::move(*child));
}

std::unique_ptr<AgentConnection> connect_behind(AgentConnection& relay, const std::string& host, LaunchMethod method,
                                                const ConnectOptions& options, std::size_t number, std::size_t hosts) {
  return std::make_unique<RelayedConnection>(relay, host, method, number, hosts,
                                             agent_command(host, method, options, true));
}

std::unique_ptr<AgentConnection> joined_agent(const std::string& host, FrameConnection frames) {
  return std::make_unique<JoinedConnection>(host, std::move(frames));
}

bool dispatch_relay_frame(const AgentConnections& agents, const AgentConnection& relay, const Frame& frame) {
  if (frame.kind != Kind::kRelayOutput && frame.kind != Kind::kRelayStderr && frame.kind != Kind::kRelayEnded)
    return false;
  if (frame.rank >= 0 && std::cmp_less(frame.rank, agents.size()))
    if (AgentConnection& agent = *agents[static_cast<std::size_t>(frame.rank)]; agent.relay() == &relay)
      agent.on_relay_frame(frame);
  return true;
}

void poll_agents(const AgentConnections& agents, AgentConnection::Clock::time_point deadline) {
  std::vector<pollfd> polled;
  for (const auto& agent : agents) agent->add_to(polled);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - AgentConnection::Clock::now()).count();
  ::poll(polled.data(), polled.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));
  for (const auto& agent : agents) agent->pump(polled);
}

void tell_outcome(const AgentConnections& agents, const std::function<Outcome(std::size_t agent)>& outcome) {
  const auto deadline = AgentConnection::Clock::now() + kOutcomeTimeout;
  const auto done = [](const auto& agent) {
    return agent->method() != LaunchMethod::kJoined || agent->frames().closed();
  };
  for (std::size_t i = 0; i < agents.size(); ++i) {
    if (done(agents[i])) continue;
    const Outcome told = outcome(i);
    agents[i]->frames().send({.kind = Kind::kOutcome, .value = told.code, .text = told.lines});
    agents[i]->write();
  }
  while (AgentConnection::Clock::now() < deadline && !std::ranges::all_of(agents, done)) poll_agents(agents, deadline);
}

// Agents hang up on the hosts behind them when their own input ends.
void disconnect_all(const AgentConnections& agents) {
  const auto deadline = AgentConnection::Clock::now() + kDisconnectTimeout;
  for (const auto& agent : agents) agent->hang_up();
  const auto done = [](const auto& agent) { return agent->relay() != nullptr || agent->status(); };
  while (AgentConnection::Clock::now() < deadline && !std::ranges::all_of(agents, done)) poll_agents(agents, deadline);
  for (const auto& agent : agents)
    if (!done(agent)) agent->kill();
}

}  // namespace xoe::remote

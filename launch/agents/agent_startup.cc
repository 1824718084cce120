#include "launch/agents/agent_startup.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/bootstrap/own_address.h"
#include "core/bootstrap/world_page.h"
#include "launch/agents/store_address.h"

namespace xoe::launch {
namespace {

using remote::AgentConnection;

// After a host failed, others often fail in the same moment for the same reason.
constexpr auto kCompanyTimeout = std::chrono::milliseconds(200);

bootstrap::StoreLimits limits_for(int ranks) {
  bootstrap::StoreLimits limits;
  limits.connections = std::max(limits.connections, static_cast<std::size_t>(ranks) * 8);
  limits.unauthenticated = std::max(limits.unauthenticated, static_cast<std::size_t>(ranks) * 2);
  return limits;
}

}  // namespace

AgentStartup::AgentStartup(const RunOptions& options, const HostsPlan& plan, const remote::Inherited& inherited,
                           SignalSource& signals, std::vector<JoinedHost> joined)
    : options_(options),
      connect_(options.where.connect),
      plan_(plan),
      inherited_(inherited),
      signals_(signals),
      joined_(std::move(joined)),
      deadline_(began_ + connect_.start_timeout),
      progress_(plan.shares.size()) {}

tl::expected<StartedAgents, remote::HostFailure> AgentStartup::run(bool start) {
  all_ = !start;
  may_miss_ = start && options_.elastic.least > 0;
  if (const auto connected = connect_all(); !connected) {
    only_unreachable_ = false;
    return tl::unexpected(remote::HostFailure{.lines = {connected.error().message()}, .exit_code = kHostFailed});
  }
  while (count(Phase::kReady) + count(Phase::kFailed) < agents_.size()) {
    if (interrupted_by_ != 0) break;
    if (Clock::now() >= deadline_) {
      time_out();
      if (!may_miss_ || store_ || count(Phase::kGreeted) == 0) break;
      began_ = Clock::now();
      deadline_ = began_ + connect_.start_timeout;
    }
    wait();
    if (store_) store_->serve();  // agents test whether they reach it
    const auto now = Clock::now();
    for (std::size_t host = 0; host < agents_.size(); ++host) serve(host, now);
    if (!store_ && count(Phase::kConnecting) == 0 && count(Phase::kGreeted) > 0)
      if (const auto sent = send_jobs(); !sent) {
        only_unreachable_ = false;
        failure_.lines.push_back(sent.error().message());
        failure_.exit_code = kHostFailed;
        break;
      }
    for (auto& agent : agents_) agent->write();
    while (const auto signal = signals_.next())
      if (*signal == SIGINT || *signal == SIGTERM || *signal == SIGQUIT || *signal == SIGHUP) interrupted_by_ = *signal;
  }
  if (interrupted_by_ != 0) failure_.exit_code = 128 + interrupted_by_;
  if (interrupted_by_ != 0 || (failure_.exit_code != 0 && !enough())) return tl::unexpected(std::move(failure_));
  StartedAgents started;
  started.store = std::move(store_);
  started.missing = std::move(failure_.lines);
  for (std::size_t host = 0; host < agents_.size(); ++host) {
    started.there.push_back(progress_[host].phase == Phase::kReady);
    if (!start || !started.there.back()) continue;
    agents_[host]->frames().send({.kind = remote::Frame::Kind::kStart});
    agents_[host]->write();
  }
  started.agents = std::move(agents_);
  return started;
}

// Whether the job can begin without the hosts that failed.
bool AgentStartup::enough() const {
  int ranks = 0;
  for (std::size_t host = 0; host < agents_.size(); ++host)
    if (progress_[host].phase == Phase::kReady) ranks += started_of(plan_.shares[host], options_);
  return may_miss_ && ranks >= options_.elastic.least;
}

Status AgentStartup::connect_all() {
  const auto& shares = plan_.shares;
  std::vector<std::size_t> hosts(shares.size(), 1);  // behind each, and itself
  for (std::size_t i = shares.size(); i-- > 0;)
    if (shares[i].relay) hosts[*shares[i].relay] += hosts[i];
  auto joined = joined_.begin();
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const auto& [host, method, ranks, relay] = shares[i];
    if (method == remote::LaunchMethod::kJoined) {
      agents_.push_back(std::move(joined->agent));
      progress_[i] = {.phase = Phase::kGreeted, .hello = std::move(joined->hello)};
      ++joined;
      continue;
    }
    if (relay) {
      agents_.push_back(remote::connect_behind(*agents_[*relay], host.name, method, connect_, i, hosts[i]));
      continue;
    }
    XOE_ASSIGN(auto agent, remote::connect_agent(host.name, method, connect_, inherited_));
    agents_.push_back(std::move(agent));
  }
  return {};
}

void AgentStartup::wait() {
  polled_.clear();
  for (auto& agent : agents_) agent->add_to(polled_);
  polled_.push_back({.fd = signals_.fd(), .events = POLLIN, .revents = 0});
  if (store_) polled_.push_back({.fd = store_->fd(), .events = POLLIN, .revents = 0});
  std::chrono::nanoseconds timeout = std::min<std::chrono::nanoseconds>(
      deadline_ - Clock::now(), remote::keepalive_interval(connect_.host_timeout) / 2);
  for (const auto& agent : agents_)
    if (agent->frames().closed()) timeout = std::min<std::chrono::nanoseconds>(timeout, std::chrono::milliseconds(50));
  const auto bounded = std::max<std::int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(timeout).count());
  ::poll(polled_.data(), polled_.size(), static_cast<int>(bounded));
}

void AgentStartup::serve(std::size_t host, Clock::time_point now) {
  AgentConnection& agent = *agents_[host];
  const Phase& phase = progress_[host].phase;
  agent.pump(polled_);
  while (true) {
    const auto frame = agent.frames().next();
    if (!frame) agent.frames().close();
    if (!frame || !*frame) break;
    if (!remote::dispatch_relay_frame(agents_, agent, **frame) && phase != Phase::kFailed) on_frame(host, **frame);
  }
  if (agent.ended(now)) {
    if (phase == Phase::kFailed) return fail_behind(host);
    return drop(host, phase == Phase::kConnecting ? remote::explain_no_agent(agent, connect_)
                                                  : remote::explain_cut(agent, connect_));
  }
  // An agent reads from its greeting on; before it, a login shell might take our bytes for commands.
  if (agent.frames().reader().greeted())
    agent.frames().keep_alive(now, remote::keepalive_interval(connect_.host_timeout));
}

void AgentStartup::on_frame(std::size_t host, const remote::Frame& frame) {
  switch (frame.kind) {
    case remote::Frame::Kind::kHello: return on_hello(host, frame.text);
    case remote::Frame::Kind::kReady: return on_ready(host, frame);
    case remote::Frame::Kind::kError:
      only_unreachable_ = false;
      return fail(host, remote::explain_refusal(*agents_[host], frame.text, static_cast<int>(frame.value)));
    default: return;
  }
}

void AgentStartup::on_hello(std::size_t host, std::string_view text) {
  Progress& progress = progress_[host];
  auto hello = remote::decode_hello(text);
  if (!hello || hello->version != plan_.version) {
    only_unreachable_ = false;
    return drop(host, remote::explain_version(*agents_[host], hello ? hello->version : "of another kind", plan_.version,
                                              connect_));
  }
  progress.hello = std::move(*hello);
  progress.phase = Phase::kGreeted;
  if (agents_[host]->relay() != nullptr) progress.hello.launcher.clear();  // that is the relay's address
  for (auto& agent : agents_)
    if (agent->relay() == agents_[host].get()) agent->open();
}

Status AgentStartup::send_jobs() {
  std::vector<remote::Hello> others;
  for (std::size_t host = 0; host < agents_.size(); ++host)
    if (progress_[host].phase == Phase::kGreeted && agents_[host]->method() != remote::LaunchMethod::kHere)
      others.push_back(progress_[host].hello);
  // Hosts that come later must reach it as well.
  XOE_ASSIGN(const std::string ip, others.empty() && options_.changes_size()
                                       ? bootstrap::own_address(options_.where.network_interface)
                                       : store_address(options_.where.network_interface, others));
  const bool six = ip.find(':') != std::string::npos;
  XOE_ASSIGN(const auto address,
             bootstrap::SocketAddress::parse(six ? fmt::format("tcp:[{}]:0", ip) : fmt::format("tcp:{}:0", ip)));
  XOE_ASSIGN(store_,
             bootstrap::StoreService::listen(
                 address, plan_.secret, limits_for(options_.changes_size() ? bootstrap::kMostSlots : options_.size)));
  for (std::size_t host = 0; host < agents_.size(); ++host) {
    Progress& progress = progress_[host];
    if (progress.phase != Phase::kGreeted) continue;
    const std::string job = encode(
        job_for(plan_, plan_.shares[host], options_, store_->address(), started_of(plan_.shares[host], options_)));
    if (job.size() > remote::kMaxFrame / 2)
      return failure(Code::kInvalidArgument,
                     "the program's arguments and variables take {} bytes; at most {} can be sent", job.size(),
                     remote::kMaxFrame / 2);
    progress.phase = Phase::kPreparing;
    progress.asked = Clock::now();
    progress.asked_clock = remote::clock_now();
    agents_[host]->frames().send({.kind = remote::Frame::Kind::kPrepare, .text = job});
  }
  return {};
}

void AgentStartup::on_ready(std::size_t host, const remote::Frame& frame) {
  Progress& progress = progress_[host];
  if (progress.phase != Phase::kPreparing) return;
  auto texts = remote::decode_texts(frame.text).value_or(std::vector<std::string>());
  texts.resize(2);
  progress.phase = Phase::kReady;
  const auto now = Clock::now();
  const std::chrono::nanoseconds half = (now - progress.asked) / 2;
  // The agent reads its clock between our request and its answer.
  checks_.push_back({.name = agents_[host]->host(),
                     .hostname = progress.hello.hostname,
                     .cores = progress.hello.cores,
                     .ranks = static_cast<int>(plan_.shares[host].ranks.size()),
                     .program = std::move(texts[0]),
                     .locality = std::move(texts[1]),
                     .answered = now - began_,
                     .clock = std::chrono::nanoseconds(frame.time - progress.asked_clock) - half,
                     .clock_err = half});
}

// Its agent, if it is connected, goes on to reach others.
void AgentStartup::fail(std::size_t host, const remote::HostFailure& failure) {
  progress_[host].phase = Phase::kFailed;
  failure_.lines.insert(failure_.lines.end(), failure.lines.begin(), failure.lines.end());
  if (failure_.exit_code == 0) failure_.exit_code = failure.exit_code;
  if (!all_ && !may_miss_) deadline_ = std::min(deadline_, Clock::now() + kCompanyTimeout);
}

void AgentStartup::drop(std::size_t host, const remote::HostFailure& failure) {
  agents_[host]->hang_up();
  fail(host, failure);
  fail_behind(host);
}

// The hosts behind it can no longer be reached.
void AgentStartup::fail_behind(std::size_t host) {
  std::vector<std::string> names;
  for (std::size_t other = host + 1; other < agents_.size(); ++other) {
    if (progress_[other].phase == Phase::kFailed || !agents_[other]->is_behind(*agents_[host])) continue;
    progress_[other].phase = Phase::kFailed;
    names.push_back(agents_[other]->host());
  }
  if (!names.empty()) failure_.lines.push_back(remote::explain_behind(*agents_[host], names));
}

// At the time limit, names the hosts that did not answer; soon after another host's failure they are not to blame.
void AgentStartup::time_out() {
  if (Clock::now() < began_ + connect_.start_timeout) return;
  for (std::size_t host = 0; host < agents_.size(); ++host)
    if (const Phase phase = progress_[host].phase; phase == Phase::kConnecting || phase == Phase::kPreparing)
      drop(host, remote::explain_no_answer(*agents_[host], connect_, phase == Phase::kPreparing));
}

std::size_t AgentStartup::count(Phase phase) const {
  return static_cast<std::size_t>(std::ranges::count(progress_, phase, &Progress::phase));
}

}  // namespace xoe::launch

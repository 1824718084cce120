#include "launch/hosts_start.h"

#include <algorithm>

#include "base/error.h"
#include "launch/addresses.h"
#include "launch/relayed_link.h"
#include "launch/shell_link.h"

namespace xoe::launch {
namespace {

// After a host failed others often do so in the same moment, for the same reason.
constexpr auto kCompanyPatience = std::chrono::milliseconds(200);
constexpr int kHostTrouble = 125;

std::int64_t clock_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bootstrap::StoreLimits limits_for(int ranks) {
  bootstrap::StoreLimits limits;
  limits.connections = std::max(limits.connections, static_cast<std::size_t>(ranks) * 8);
  limits.unauthenticated = std::max(limits.unauthenticated, static_cast<std::size_t>(ranks) * 2);
  return limits;
}

}  // namespace

HostsStart::HostsStart(const RunOptions& options, const HostsPlan& plan, const Env& env, SignalSource& signals,
                       const rlimit& open_files)
    : options_(options),
      plan_(plan),
      env_(env),
      signals_(signals),
      open_files_(open_files),
      deadline_(began_ + options.where.start_timeout),
      all_(false),
      progress_(plan.shares.size()) {}

tl::expected<StartedHosts, HostFailure> HostsStart::run(bool start) {
  all_ = !start;
  if (const auto connected = connect_all(); !connected)
    return tl::unexpected(HostFailure{.lines = {connected.error().message()}, .exit_code = kHostTrouble});
  while (count(Stage::kReady) + count(Stage::kFailed) < links_.size()) {
    if (interrupted_by_ != 0) break;
    if (Clock::now() >= deadline_) {
      give_up_on_the_rest();
      break;
    }
    wait();
    if (store_) store_->serve();  // agents try whether they reach it
    const auto now = Clock::now();
    for (std::size_t host = 0; host < links_.size(); ++host) look_at(host, now);
    if (!store_ && count(Stage::kConnecting) == 0 && count(Stage::kGreeted) > 0)
      if (const auto sent = send_jobs(); !sent) {
        failure_.lines.push_back(sent.error().message());
        failure_.exit_code = kHostTrouble;
        break;
      }
    for (auto& link : links_) link->write();
    while (const auto signal = signals_.next())
      if (*signal == SIGINT || *signal == SIGTERM || *signal == SIGQUIT || *signal == SIGHUP) interrupted_by_ = *signal;
  }
  if (interrupted_by_ != 0) failure_.exit_code = 128 + interrupted_by_;
  if (failure_.exit_code != 0) {
    part_from(links_);
    return tl::unexpected(std::move(failure_));
  }
  if (start)
    for (auto& link : links_) {
      link->pipe().send({.kind = AgentFrame::Kind::kStart});
      link->write();
    }
  return StartedHosts{.links = std::move(links_), .store = std::move(store_)};
}

Status HostsStart::connect_all() {
  const auto& shares = plan_.shares;
  std::vector<std::size_t> hosts(shares.size(), 1);  // behind each, and itself
  for (std::size_t i = shares.size(); i-- > 0;)
    if (shares[i].relay) hosts[*shares[i].relay] += hosts[i];
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const HostShare& share = shares[i];
    auto command = agent_command(share.host, share.way, options_.where, plan_.xoe_path, share.relay.has_value());
    if (share.relay) {
      links_.push_back(std::make_unique<RelayedLink>(share, *links_[*share.relay], i, hosts[i], std::move(command)));
      continue;
    }
    XOE_ASSIGN(auto link, ShellLink::start(share, command, env_, signals_.mask_before(), open_files_));
    links_.push_back(std::move(link));
  }
  return {};
}

void HostsStart::wait() {
  polled_.clear();
  for (auto& link : links_) link->add_to(polled_);
  polled_.push_back({.fd = signals_.fd(), .events = POLLIN, .revents = 0});
  if (store_) polled_.push_back({.fd = store_->fd(), .events = POLLIN, .revents = 0});
  std::chrono::nanoseconds patience =
      std::min<std::chrono::nanoseconds>(deadline_ - Clock::now(), alive_interval(options_.where.host_timeout) / 2);
  for (const auto& link : links_)
    if (link->pipe().closed()) patience = std::min<std::chrono::nanoseconds>(patience, std::chrono::milliseconds(50));
  const auto bounded = std::max<std::int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(patience).count());
  ::poll(polled_.data(), polled_.size(), static_cast<int>(bounded));
}

void HostsStart::look_at(std::size_t host, Clock::time_point now) {
  HostLink& link = *links_[host];
  const Stage& stage = progress_[host].stage;
  link.pump(polled_);
  while (true) {
    const auto frame = link.pipe().next();
    if (!frame) link.pipe().close();
    if (!frame || !*frame) break;
    if (!pass_on(links_, link, **frame) && stage != Stage::kFailed) on_frame(host, **frame);
  }
  if (link.over(now)) {
    if (stage == Stage::kFailed) return fail_behind(host);
    return drop(host, stage == Stage::kConnecting ? explain_no_agent(link, options_.where, plan_.xoe_path)
                                                  : explain_cut(link, options_.where));
  }
  // An agent listens from its greeting on, and what a shell in between would make of our bytes is not known.
  if (link.pipe().reader().greeted()) link.pipe().keep_alive(now, alive_interval(options_.where.host_timeout));
}

void HostsStart::on_frame(std::size_t host, const AgentFrame& frame) {
  switch (frame.kind) {
    case AgentFrame::Kind::kHello: return on_hello(host, frame.text);
    case AgentFrame::Kind::kReady: return on_ready(host, frame);
    case AgentFrame::Kind::kError:
      return fail(host, explain_refusal(*links_[host], frame.text, static_cast<int>(frame.value)));
    default: return;
  }
}

void HostsStart::on_hello(std::size_t host, std::string_view text) {
  Progress& progress = progress_[host];
  auto hello = decode_hello(text);
  if (!hello || hello->version != plan_.version)
    return drop(host, explain_version(*links_[host], hello ? hello->version : "of another kind", plan_.version,
                                      plan_.xoe_path));
  progress.hello = std::move(*hello);
  progress.stage = Stage::kGreeted;
  if (links_[host]->relay() != nullptr) progress.hello.launcher.clear();  // it saw the relay come
  for (auto& link : links_)
    if (link->relay() == links_[host].get()) link->open();
}

Status HostsStart::send_jobs() {
  std::vector<AgentHello> others;
  for (std::size_t host = 0; host < links_.size(); ++host)
    if (progress_[host].stage == Stage::kGreeted && links_[host]->share().way != Way::kHere)
      others.push_back(progress_[host].hello);
  XOE_ASSIGN(const std::string ip, store_address(options_.where.network_interface, others));
  const bool six = ip.find(':') != std::string::npos;
  XOE_ASSIGN(const auto address,
             bootstrap::SocketAddress::parse(six ? fmt::format("tcp:[{}]:0", ip) : fmt::format("tcp:{}:0", ip)));
  XOE_ASSIGN(store_, bootstrap::StoreService::listen(address, plan_.secret, limits_for(options_.size)));
  for (std::size_t host = 0; host < links_.size(); ++host) {
    Progress& progress = progress_[host];
    if (progress.stage != Stage::kGreeted) continue;
    const std::string job = encode(job_for(plan_, links_[host]->share(), options_, store_->address()));
    if (job.size() > kMaxAgentFrame / 2)
      return failure(Code::kInvalidArgument,
                     "the program's arguments and variables take {} bytes; at most {} can be sent", job.size(),
                     kMaxAgentFrame / 2);
    progress.stage = Stage::kPreparing;
    progress.asked = Clock::now();
    progress.asked_clock = clock_now();
    links_[host]->pipe().send({.kind = AgentFrame::Kind::kPrepare, .text = job});
  }
  return {};
}

void HostsStart::on_ready(std::size_t host, const AgentFrame& frame) {
  Progress& progress = progress_[host];
  if (progress.stage != Stage::kPreparing) return;
  auto texts = decode_command(frame.text).value_or(std::vector<std::string>());
  texts.resize(2);
  progress.stage = Stage::kReady;
  const auto now = Clock::now();
  const std::chrono::nanoseconds half = (now - progress.asked) / 2;
  // The agent reads its clock somewhere between our question and its answer.
  checks_.push_back({.name = links_[host]->name(),
                     .hostname = progress.hello.hostname,
                     .cores = progress.hello.cores,
                     .ranks = static_cast<int>(links_[host]->share().ranks.size()),
                     .program = std::move(texts[0]),
                     .near = std::move(texts[1]),
                     .answered = now - began_,
                     .clock = std::chrono::nanoseconds(frame.time - progress.asked_clock) - half,
                     .clock_err = half});
}

// Its agent, if it is there, goes on to reach others.
void HostsStart::fail(std::size_t host, const HostFailure& failure) {
  progress_[host].stage = Stage::kFailed;
  failure_.lines.insert(failure_.lines.end(), failure.lines.begin(), failure.lines.end());
  if (failure_.exit_code == 0) failure_.exit_code = failure.exit_code;
  if (!all_) deadline_ = std::min(deadline_, Clock::now() + kCompanyPatience);
}

void HostsStart::drop(std::size_t host, const HostFailure& failure) {
  links_[host]->hang_up();
  fail(host, failure);
  fail_behind(host);
}

// Those that it can no longer reach for us.
void HostsStart::fail_behind(std::size_t host) {
  std::vector<std::string> names;
  for (std::size_t other = host + 1; other < links_.size(); ++other) {
    if (progress_[other].stage == Stage::kFailed || !is_behind(*links_[other], *links_[host])) continue;
    progress_[other].stage = Stage::kFailed;
    names.push_back(links_[other]->name());
  }
  if (!names.empty()) failure_.lines.push_back(explain_behind(*links_[host], names));
}

// At the time limit those that did not answer are named; soon after another host's failure they are not to blame.
void HostsStart::give_up_on_the_rest() {
  if (Clock::now() < began_ + options_.where.start_timeout) return;
  for (std::size_t host = 0; host < links_.size(); ++host)
    if (const Stage stage = progress_[host].stage; stage == Stage::kConnecting || stage == Stage::kPreparing)
      drop(host, explain_no_answer(*links_[host], options_.where, stage == Stage::kPreparing));
}

std::size_t HostsStart::count(Stage stage) const {
  return static_cast<std::size_t>(std::ranges::count(progress_, stage, &Progress::stage));
}

}  // namespace xoe::launch

#include "launch/agents/agent.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/bootstrap/own_address.h"
#include "core/bootstrap/world_members.h"
#include "launch/agents/store_address.h"
#include "launch/output/report.h"
#include "launch/plan/cores.h"
#include "launch/remote/host_clock.h"
#include "launch/remote/program.h"

namespace xoe::launch {
namespace {

// Longer than the supervisor goes on killing.
constexpr auto kSupervisorTimeout = std::chrono::seconds(12);
// Without a job yet: the launcher of many hosts is silent while it starts the shells to all of them.
constexpr auto kTimeoutBeforeJob = std::chrono::seconds(60);
constexpr auto kStatusEvery = std::chrono::milliseconds(500);
// After SIGTERM: as many seconds as most clouds and schedulers give.
constexpr auto kSignalledDeparture = std::chrono::seconds(30);
constexpr auto kSecondSignal = std::chrono::seconds(1);
constexpr int kCannotRun = 126;
constexpr int kNoProgram = 127;

// sshd and srun set variables with the launcher's address.
std::string launcher_address(const Env& env) {
  const auto ssh = env.text("SSH_CONNECTION");
  return ssh ? split_text(*ssh, ' ').front() : env.text("SLURM_LAUNCH_NODE_IPADDR").value_or("");
}

}  // namespace

Agent::Agent(remote::FrameConnection launcher, SignalSource& signals, remote::Inherited inherited,
             std::optional<JoinedAgent> joined)
    : launcher_(std::move(launcher)),
      signals_(signals),
      inherited_(std::move(inherited)),
      joined_(std::move(joined)),
      relay_(inherited_),
      timeout_(AgentJob().host_timeout) {}

void Agent::run(const std::string& version) {
  send_hello(version);
  launcher_.write();
  while (true) {
    const auto before = Clock::now();
    if (done(before)) return;
    wait();
    // Where this process stood still, the silence is its own.
    if (Clock::now() - before >= timeout_ / 2) launcher_.reset_silence();
    launcher_.read();
    while (!abandoned_) {
      auto frame = launcher_.next();
      if (!frame) launcher_.close();  // not our launcher
      if (!frame || !*frame) break;
      on_frame(**frame);
    }
    on_signals();
    watch_departure();
    on_supervisor();
    const auto now = Clock::now();
    streams_.pump(polled_, launcher_, now);
    relay_.pump(polled_, launcher_);
    send_status(now);
    finish_output(now);
    check_launcher(now);
    launcher_.write();
  }
}

void Agent::send_hello(const std::string& version) {
  remote::Hello hello{.version = version,
                      .hostname = remote::this_hostname(),
                      .launcher = joined_ ? joined_->launcher : launcher_address(inherited_.env),
                      .ranks = joined_ ? joined_->ranks : 0};
  hello.addresses = local_addresses().value_or(std::vector<std::string>());
  if (const auto cpus = allowed_cpus()) hello.cores = usable_cores(cpus->size());
  launcher_.greet();
  launcher_.send({.kind = remote::Frame::Kind::kHello, .text = encode(hello)});
}

void Agent::wait() {
  polled_.clear();
  polled_.push_back({.fd = abandoned_ ? -1 : launcher_.in(), .events = POLLIN, .revents = 0});
  polled_.push_back({.fd = signals_.fd(), .events = POLLIN, .revents = 0});
  polled_.push_back({.fd = supervisor_ && !gone_ ? supervisor_->fd() : -1, .events = POLLIN, .revents = 0});
  if (launcher_.wants_to_write()) polled_.push_back({.fd = launcher_.out(), .events = POLLOUT, .revents = 0});
  // Keepalives, and their absence, are checked several times in their interval.
  auto timeout = remote::keepalive_interval(timeout_) / 2;
  if (gone_ && !ended_) timeout = std::min<std::chrono::nanoseconds>(timeout, std::chrono::milliseconds(100));
  if (abandoned_) timeout = std::min<std::chrono::nanoseconds>(timeout, std::chrono::milliseconds(100));
  if (status_ && !gone_) timeout = std::min<std::chrono::nanoseconds>(timeout, kStatusEvery);
  streams_.add_to(polled_);
  relay_.add_to(polled_, launcher_);
  if (departure_) departure_->add_to(polled_);
  ::poll(polled_.data(), polled_.size(),
         static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(timeout).count()));
}

void Agent::check_launcher(Clock::time_point now) {
  if (abandoned_) return;
  launcher_.keep_alive(now, remote::keepalive_interval(timeout_));
  const auto silence = job_ ? timeout_ : std::max<std::chrono::nanoseconds>(timeout_, kTimeoutBeforeJob);
  if (launcher_.closed() || (!paused_ && now - launcher_.heard() >= silence)) abandon(now);
}

void Agent::abandon(Clock::time_point now) {
  abandoned_ = true;
  launcher_.close();
  relay_.hang_up(now);
  kill_all();
}

void Agent::kill_all() {
  if (killed_at_) return;
  killed_at_ = Clock::now();
  command({.kind = SupervisorCommand::Kind::kKillAll});
}

void Agent::command(const SupervisorCommand& command) {
  if (supervisor_ && !gone_) supervisor_->send(command);
}

bool Agent::done(Clock::time_point now) const {
  if (!abandoned_ || !relay_.finished(now)) return false;
  return !supervisor_ || gone_ || now - *killed_at_ > kSupervisorTimeout;
}

void Agent::on_frame(const remote::Frame& frame) {
  using Kind = remote::Frame::Kind;
  if (relay_.on_frame(frame, launcher_)) return;
  paused_ = false;  // the launcher speaks again
  switch (frame.kind) {
    case Kind::kPause: paused_ = true; return;
    case Kind::kPrepare: return prepare(frame.text);
    case Kind::kStart: return start();
    case Kind::kSignal:
      return command({.kind = SupervisorCommand::Kind::kSignal, .signal = static_cast<int>(frame.value)});
    case Kind::kEnd: return command({.kind = SupervisorCommand::Kind::kEnd});
    case Kind::kKill: return kill_all();
    case Kind::kRestart: return to_rank(frame.rank, {.kind = SupervisorCommand::Kind::kRestart});
    case Kind::kSignalRank:
      return to_rank(frame.rank,
                     {.kind = SupervisorCommand::Kind::kSignalRank, .signal = static_cast<int>(frame.value)});
    case Kind::kWorld: return publish_world(frame);
    case Kind::kNoMoreRestarts: return command({.kind = SupervisorCommand::Kind::kNoMoreRestarts});
    case Kind::kInput: return streams_.feed(frame.text);
    case Kind::kInputEnd: return streams_.end_input();
    case Kind::kReport: return report();
    case Kind::kExamine: return become_probe();
    case Kind::kOutcome:
      told_ = remote::Outcome{.code = frame.value, .lines = std::string(frame.text)};
      return abandon(Clock::now());
    case Kind::kCredit: return streams_.credit(std::clamp<std::int64_t>(frame.value, 0, remote::kOutputWindow));
    default: return;
  }
}

void Agent::prepare(std::string_view text) {
  if (plan_ || ended_) return refuse(Error(Code::kInternal, "a job was sent twice"), kHostFailed);
  std::string program;
  if (const auto prepared = prepare_job(text, program); !prepared) {
    const bool missing = prepared.error().code() == Code::kUnavailable && program.empty();
    return refuse(prepared.error(), missing ? kNoProgram : kHostFailed);
  }
  launcher_.send({.kind = remote::Frame::Kind::kReady,
                  .time = remote::clock_now(),
                  .text = remote::encode_texts({program, plan_->locality})});
}

Status Agent::prepare_job(std::string_view text, std::string& program) {
  program = "?";  // not searched yet
  XOE_ASSIGN(job_, decode_job(text));
  timeout_ = job_->host_timeout;
  if (::chdir(job_->directory.c_str()) != 0)
    return failure(Code::kUnavailable, "cannot enter the working directory {} there: {}; it must be on every host",
                   job_->directory, errno_text(errno));
  if (!job_->network_interface.empty())
    if (const auto own = bootstrap::own_address(job_->network_interface); !own)
      return failure(Code::kUnavailable,
                     "--network-interface {}: {}; a network, as 10.1.0.0/16, fits hosts whose interfaces have "
                     "different names",
                     job_->network_interface, own.error().message());
  XOE_TRY(check_reachable(job_->store));
  XOE_TRY(remote::allow_open_files(static_cast<int>(job_->ranks.size())));
  const Env variables = agent_env(*job_, inherited_.env);
  program.clear();
  XOE_ASSIGN(program, remote::find_program(job_->command.front(), variables));
  XOE_ASSIGN(auto facts, read_host_facts());
  const auto& wanted = job_->network_interface;
  facts.interface =
      traffic_interface(wanted.empty() ? variables.text("XOE_INTERFACE").value_or("") : wanted, job_->store);
  XOE_ASSIGN(plan_, plan_host(*job_, variables, facts, program));
  return {};
}

// The pages that the ranks here share with this agent, if the launcher asks for them.
Status Agent::make_pages() {
  const auto asks_for = [this](std::string_view page) {
    return std::ranges::any_of(job_->env, [page](const auto& variable) { return variable.first == page; });
  };
  if (asks_for(bootstrap::kStatusVariable)) {
    XOE_ASSIGN(auto status, bootstrap::StatusPage::create(job_->ranks.size()));
    status_.emplace(std::move(status));
  }
  if (asks_for(bootstrap::kWorldVariable)) {
    XOE_ASSIGN(auto world, bootstrap::WorldPage::create());
    world_.emplace(std::move(world));
  }
  return {};
}

void Agent::start() {
  if (!plan_ || supervisor_ || ended_) return;
  std::vector<RankEnds> ends;
  auto streams = AgentStreams::open(job_->ranks, ends);
  if (!streams) return refuse(streams.error(), kHostFailed);
  streams_ = std::move(*streams);
  if (joined_) streams_.copy_to(*joined_->output, *joined_->options);
  if (const Status made = make_pages(); !made) return refuse(made.error(), kHostFailed);
  const RankCommands commands(*plan_, ends, inherited_, status_ ? status_->path() : "", world_ ? world_->path() : "");
  auto not_inherited = streams_.descriptors();
  if (status_) not_inherited.push_back(status_->fd());
  if (world_) not_inherited.push_back(world_->fd());
  // A supervisor that outlives this process must not keep the connection open.
  if (joined_) not_inherited.insert(not_inherited.end(), {launcher_.in(), launcher_.out()});
  const auto relayed = relay_.descriptors();
  not_inherited.insert(not_inherited.end(), relayed.begin(), relayed.end());
  auto requests = commands.requests();
  // SIGUSR1 is a word to this process. Batch systems send it to all processes of the host, of which most would die of
  // it.
  if (world_)
    for (remote::SpawnRequest& request : requests) request.ignored_signal = SIGUSR1;
  auto supervisor =
      SupervisorLink::start(std::move(requests), not_inherited, job_->restarts, static_cast<std::size_t>(job_->first));
  if (!supervisor) return refuse(supervisor.error(), kHostFailed);
  supervisor_.emplace(std::move(*supervisor));
  if (!job_->notices.empty()) departure_.emplace(job_->notices, inherited_);
}

void Agent::to_rank(std::int64_t rank, SupervisorCommand told) {
  if (!job_) return;
  const auto found = std::ranges::find(job_->ranks, rank, &AgentRank::rank);
  if (found == job_->ranks.end()) return;
  told.rank = static_cast<int>(found - job_->ranks.begin());
  command(told);
}

void Agent::publish_world(const remote::Frame& frame) {
  const auto world = bootstrap::parse_world(fmt::format("{} {}", frame.value, frame.text));
  if (!world_ || !world) return;
  std::vector<int> slots;
  for (const bootstrap::WorldMember& member : world->members) slots.push_back(member.slot);
  world_->publish(world->version, slots);
}

// The doctor is another program, which loads foreign libraries: it replaces this one and goes on with the connection.
void Agent::become_probe() {
  std::error_code error;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  const std::vector<std::string> command{folder / "xoe-doctor", "probe"};
  ::sigprocmask(SIG_SETMASK, &inherited_.mask, nullptr);
  ::execv(command[0].c_str(), remote::c_strings(command).data());
  refuse(Error(Code::kUnavailable, fmt::format("cannot run {}: {}", command[0], errno_text(errno))), kNoProgram);
}

void Agent::refuse(const Error& error, int exit_code) {
  ended_ = true;
  const int code = error.code() == Code::kInvalidArgument ? kCannotRun : exit_code;
  launcher_.send({.kind = remote::Frame::Kind::kError, .value = code, .text = error.message()});
}

// A user on this host, or its batch system, ends the agent: the signal is passed on to the ranks.
void Agent::on_signals() {
  while (const auto signal = signals_.next()) {
    if (world_ && (*signal == SIGTERM || *signal == SIGUSR1) && is_departure(*signal)) continue;
    if (joined_ && (*signal == SIGTERM || *signal == SIGINT || *signal == SIGQUIT || *signal == SIGHUP))
      pass_on(*signal);
    else if (*signal == SIGTERM || *signal == SIGINT)
      command({.kind = SupervisorCommand::Kind::kSignal, .signal = SIGTERM});
  }
}

// Where the others can go on, one who ends this agent says that its host is to be taken away. Schedulers say so more
// than once: only a second SIGTERM, after a while, means the ranks.
bool Agent::is_departure(int signal) {
  const auto now = Clock::now();
  if (signal == SIGTERM && terminated_at_ && now - *terminated_at_ >= kSecondSignal) return false;
  if (signal == SIGTERM && !terminated_at_) terminated_at_ = now;
  if (signalled_ == 0) signalled_ = signal;
  depart(kSignalledDeparture, fmt::format("it got {} and is to leave", signal_name(signal)));
  return true;
}

void Agent::watch_departure() {
  if (!departure_) return;
  for (const auto& [left, why] : departure_->pump())
    if (left.count() < 0)
      launcher_.send({.kind = remote::Frame::Kind::kDeparting, .value = -1, .text = why});
    else
      depart(left, "it is to be taken away: " + why);
}

void Agent::depart(std::chrono::milliseconds left, const std::string& why) {
  if (std::exchange(departing_, true)) return;
  launcher_.send({.kind = remote::Frame::Kind::kDeparting, .value = left.count(), .text = why});
}

// The launcher gives it to the ranks of all hosts. Before they run there is nothing to save.
void Agent::pass_on(int signal) {
  if (signalled_ == 0) signalled_ = signal;
  if (supervisor_)
    launcher_.send({.kind = remote::Frame::Kind::kSignalled, .value = signal});
  else
    abandon(Clock::now());
}

void Agent::on_supervisor() {
  while (supervisor_ && !gone_) {
    const auto event = supervisor_->next();
    if (!event) return;
    const auto local = static_cast<std::size_t>(std::max(event->rank, 0));
    const int rank = event->rank >= 0 && local < job_->ranks.size() ? job_->ranks[local].rank : 0;
    const auto stamp = std::chrono::nanoseconds(event->at.time_since_epoch()).count();
    switch (event->kind) {
      case SupervisorEvent::Kind::kStartFailed:
        launcher_.send({.kind = remote::Frame::Kind::kStartFailed, .rank = rank, .value = event->value});
        break;
      case SupervisorEvent::Kind::kEnded:
        if (rank == 0 && !job_->restarts) streams_.close_input();
        launcher_.send({.kind = remote::Frame::Kind::kEnded,
                        .rank = rank,
                        .value = event->value,
                        .pid = event->pid,
                        .time = stamp,
                        .text = encode(remote::RankEnding{.ran = event->ran.count(), .asked = event->asked})});
        break;
      case SupervisorEvent::Kind::kSupervisorLost:
        launcher_.send({.kind = remote::Frame::Kind::kSupervisorLost, .time = stamp});
        break;
      case SupervisorEvent::Kind::kReported: send_reported(); break;
      case SupervisorEvent::Kind::kAllGone:
        gone_ = true;
        send_reported();
        break;
      default: break;  // it is none of a supervisor
    }
  }
}

// The supervisor answers after all events that it has; this agent passes them on before it answers the launcher.
void Agent::report() {
  reports_ = true;
  if (!supervisor_ || gone_) return send_reported();
  command({.kind = SupervisorCommand::Kind::kReport});
}

void Agent::send_reported() {
  if (std::exchange(reports_, false))
    launcher_.send({.kind = remote::Frame::Kind::kReported, .time = remote::HostClock::now().count()});
}

void Agent::send_status(Clock::time_point now) {
  if (!status_ || gone_ || abandoned_ || now < next_status_) return;
  next_status_ = now + kStatusEvery;
  if (launcher_.wants_to_write()) return;  // a launcher that is stopped reads nothing, and the next status is better
  launcher_.send({.kind = remote::Frame::Kind::kStatus,
                  .time = remote::HostClock::now().count(),
                  .text = bootstrap::encode_facts(status_->facts(now))});
}

void Agent::finish_output(Clock::time_point now) {
  if (!gone_ || ended_) return;
  streams_.drain(now);
  if (streams_.open() && !abandoned_) return;
  ended_ = true;
  launcher_.send({.kind = remote::Frame::Kind::kAllGone});
}

int run_agent(const std::string& version) {
  reset_child_signal();
  auto signals = SignalSource::open();
  if (!signals) return kHostFailed;
  auto inherited = remote::Inherited::current();
  inherited.mask = signals->mask_before();
  remote::FrameConnection launcher(Fd(STDIN_FILENO), Fd(STDOUT_FILENO), false);
  Agent(std::move(launcher), *signals, std::move(inherited)).run(version);
  return 0;
}

}  // namespace xoe::launch

#include "launch/cli/run_members.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/random_token.h"
#include "core/base/text.h"
#include "core/command_line/version.h"
#include "launch/agents/agent.h"
#include "launch/agents/agent_startup.h"
#include "launch/agents/remote_processes.h"
#include "launch/cli/run_texts.h"
#include "launch/output/job_streams.h"
#include "launch/remote/spawn.h"
#include "launch/rendezvous/joining.h"
#include "launch/rendezvous/member_exit.h"
#include "launch/rendezvous/rendezvous_server.h"
#include "launch/supervise/job.h"

namespace xoe::tools {
namespace {

using launch::kRetryElsewhere;
using launch::kRetryHere;
using launch::Membership;

constexpr int kPauseMs = 1000;
constexpr auto kOutputTimeout = std::chrono::seconds(5);

int code_of_signal(int signal) { return signal == SIGTERM ? kRetryElsewhere : 128 + signal; }

// What all members have from their start to their end, through all rounds.
struct Process {
  remote::Inherited inherited;
  launch::SignalSource signals;
};

Result<Process> prepare(const Env& env, int ranks) {
  launch::reset_child_signal();
  auto inherited = remote::Inherited::current(env);
  XOE_TRY(remote::allow_open_files(ranks));
  XOE_ASSIGN(auto signals, launch::SignalSource::open());
  return Process{.inherited = std::move(inherited), .signals = std::move(signals)};
}

// Members that join a job that runs.
class LateMembers : public launch::HostSource {
 public:
  explicit LateMembers(std::unique_ptr<launch::RendezvousServer> server) : server_(std::move(server)) {}
  void add_to(std::vector<pollfd>& polled) override { server_->add_to(polled); }
  std::vector<launch::JoinedHost> pump(const std::vector<pollfd>& polled) override { return server_->pump(polled); }
  void refuse(remote::AgentConnection& agent, const remote::HostFailure& why) override {
    launch::RendezvousServer::refuse(agent, why);
  }

 private:
  std::unique_ptr<launch::RendezvousServer> server_;
};

// Member 0.
class Leader {
 public:
  Leader(launch::RunOptions& options, const Membership& membership, std::string secret, const Env& env)
      : options_(options),
        membership_(membership),
        secret_(std::move(secret)),
        env_(env),
        version_(command_line::version()),
        restarts_left_(options.restarts) {
    if (membership.elastic) {
      options_.elastic.least = membership.ranks * membership.least;
      options_.elastic.most = membership.ranks * membership.count;
    }
    options_.panel = options_.panel && !membership.elastic;  // it has a row for each of the first ranks
    options_.where.fan_out = 0;
    options_.terminal = false;
  }

  int run(Process& process) {
    while (true) {
      std::unique_ptr<launch::RendezvousServer> server;
      auto joined = gather(process, server);
      if (!joined) return joined.error();
      if (!membership_.elastic) server.reset();
      if (const auto code = run_round(process, std::move(*joined), std::move(server))) return *code;
      say(fmt::format("the job begins again; {} of {} restarts left", restarts_left_, all_restarts_));
    }
  }

 private:
  tl::expected<std::vector<launch::JoinedHost>, int> gather(Process& process,
                                                            std::unique_ptr<launch::RendezvousServer>& kept) {
    auto server = launch::RendezvousServer::listen(membership_, secret_, version_, [](const auto& line) { say(line); });
    if (!server) return tl::unexpected(fail(server.error(), kRetryElsewhere));
    auto joined = (*server)->run(options_.rendezvous.timeout, process.signals);
    if (joined) {
      kept = std::move(*server);
      return std::move(*joined);
    }
    for (const std::string& line : joined.error().lines) say(line);
    const int code = joined.error().exit_code;
    return tl::unexpected(code == 128 + SIGTERM ? kRetryElsewhere : code);
  }

  // nullopt: the job begins again.
  std::optional<int> run_round(Process& process, std::vector<launch::JoinedHost> joined,
                               std::unique_ptr<launch::RendezvousServer> server) {
    options_.size = membership_.ranks * (static_cast<int>(joined.size()) + 1);
    launch::HostList list{.hosts = {{.name = remote::this_hostname(), .slots = membership_.ranks}},
                          .meeting_at = membership_.leader};
    for (const launch::JoinedHost& host : joined)
      list.hosts.push_back({.name = host.agent->host(), .slots = membership_.ranks});
    const auto token = random_token();
    const auto secret = random_token();
    if (!token || !secret) return fail(token ? secret.error() : token.error(), kRetryElsewhere);
    options_.restarts = restarts_left_;
    const auto plan = launch::plan_hosts(options_, list, env_, version_, *token, *secret);
    if (!plan) return refuse(joined, plan.error());
    auto output = std::make_unique<launch::Output>(STDOUT_FILENO, STDERR_FILENO);
    const launch::RunOptions shown = shown_here(plan->shares.front().ranks);
    auto streams = launch::open_remote_streams(shown, plan->slots, *output);
    if (!streams) return refuse(joined, streams.error());
    auto signals = launch::SignalSource::open();
    if (!signals) return refuse(joined, signals.error());
    launch::AgentStartup start(options_, *plan, process.inherited, *signals, std::move(joined));
    auto started = start.run(!options_.where.check);
    if (options_.where.check)
      for (const launch::HostCheck& check : start.checks()) print_check(check);
    if (!started) return report(start, started.error());
    if (options_.where.check) {
      remote::tell_outcome(started->agents, [](std::size_t) { return remote::Outcome(); });
      remote::disconnect_all(started->agents);
      return 0;
    }
    for (const std::string& line : started->missing) say(line);
    std::unique_ptr<launch::ElasticHosts> elastic;
    if (server)
      elastic = std::make_unique<launch::ElasticHosts>(options_, *plan, process.inherited, started->store->address(),
                                                       std::make_unique<LateMembers>(std::move(server)));
    auto processes =
        std::make_unique<launch::RemoteProcesses>(shown, plan->shares, started->agents, std::move(started->there),
                                                  std::move(*streams), *output, std::move(elastic));
    const auto code_of = [this](const launch::JobOutcome& ended) {
      return begins_again(ended) ? std::nullopt : std::optional(launch::member_code(ended, 0, remote::this_hostname()));
    };
    const auto outcome = launch::supervise_job(options_, std::move(*signals), std::move(started->store),
                                               std::move(output), std::move(processes), code_of);
    return conclude(outcome, started->agents);
  }

  // Nothing can be started.
  static int refuse(std::vector<launch::JoinedHost>& joined, const Error& error) {
    const int code = error.code() == Code::kInvalidArgument ? fail(error) : fail(error, kRetryElsewhere);
    remote::AgentConnections agents;
    for (launch::JoinedHost& host : joined) agents.push_back(std::move(host.agent));
    remote::Outcome told{.code = code == kRetryElsewhere ? kRetryHere : code, .lines = error.message()};
    remote::tell_outcome(agents, [&told](std::size_t) { return told; });
    return code;
  }

  // Every member shows its own ranks.
  launch::RunOptions shown_here(const std::vector<launch::AgentRank>& ranks) const {
    launch::RunOptions shown = options_;
    shown.only_ranks.emplace();
    for (const launch::AgentRank& rank : ranks)
      if (options_.shows(rank.rank)) shown.only_ranks->push_back(rank.rank);
    return shown;
  }

  static int report(const launch::AgentStartup& start, const remote::HostFailure& failure) {
    std::vector<std::string> lines = failure.lines;
    const int signal = start.interrupted_by();
    if (signal != 0)
      lines.push_back(fmt::format("member 0 (host {}) got {} before all members were ready", remote::this_hostname(),
                                  launch::signal_name(signal)));
    for (const std::string& line : lines) say(line);
    remote::Outcome told{.code = launch::member_code_of_start(failure.exit_code),
                         .lines = fmt::format("{}", fmt::join(lines, "\n"))};
    remote::tell_outcome(start.agents(), [&told](std::size_t) { return told; });
    remote::disconnect_all(start.agents());
    return signal != 0 ? code_of_signal(signal) : static_cast<int>(told.code);
  }

  int left_after(const launch::JobOutcome& outcome) const {
    return std::max(0, restarts_left_ - launch::restarts_used(outcome, 2 * options_.where.connect.host_timeout));
  }

  bool begins_again(const launch::JobOutcome& outcome) const {
    return left_after(outcome) > 0 && launch::calls_for_next_round(outcome);
  }

  std::optional<int> conclude(const launch::JobOutcome& outcome, const remote::AgentConnections& agents) {
    std::vector<std::string> hosts;
    for (const auto& agent : agents) hosts.push_back(agent->host());
    const auto lines = launch::report_lines(outcome, options_, launch::signalled_members(outcome, hosts));
    for (const std::string& line : lines) say(line);
    const bool again = begins_again(outcome);
    restarts_left_ = left_after(outcome) - (again ? 1 : 0);
    const auto code_of = [&](std::size_t host) { return launch::member_code(outcome, host, hosts[host]); };
    remote::tell_outcome(agents, [&](std::size_t host) {
      return remote::Outcome{.code = again ? remote::kNextRound : code_of(host),
                             .lines = fmt::format("{}", fmt::join(lines, "\n"))};
    });
    remote::disconnect_all(agents);
    return again ? std::nullopt : std::optional(code_of(0));
  }

  launch::RunOptions& options_;
  const Membership& membership_;
  const std::string secret_;
  const Env& env_;
  const std::string version_;
  int restarts_left_;
  const int all_restarts_ = restarts_left_;
};

void flush(launch::Output& output) {
  const auto deadline = std::chrono::steady_clock::now() + kOutputTimeout;
  output.flush();
  while (!output.empty() && std::chrono::steady_clock::now() < deadline) {
    ::poll(nullptr, 0, 10);
    output.flush();
  }
}

// Any other member.
class Follower {
 public:
  using Clock = std::chrono::steady_clock;
  Follower(const launch::RunOptions& options, const Membership& membership, std::string secret)
      : options_(options), membership_(membership), secret_(std::move(secret)), rounds_left_(options.restarts) {}

  int run(Process& process) {
    while (true) {
      auto met = launch::meet_leader(membership_, secret_, process.inherited, process.signals, began_,
                                     options_.rendezvous.timeout, [](const auto& line) { say(line); });
      if (!met) return met.error().code() == Code::kInvalidArgument ? fail(met.error()) : fail(met.error(), kRetryHere);
      if (met->signal != 0) {
        say(fmt::format("ended by {} before it had met member 0", launch::signal_name(met->signal)));
        return code_of_signal(met->signal);
      }
      if (const auto code = run_round(process, std::move(*met))) return *code;
    }
  }

 private:
  // nullopt: member 0 is to be met again.
  std::optional<int> run_round(Process& process, launch::MetLeader met) {
    launch::Agent agent(
        remote::FrameConnection(std::move(met.connection), false), process.signals, process.inherited,
        launch::JoinedAgent{
            .launcher = met.address, .ranks = membership_.ranks, .output = &output_, .options = &options_});
    agent.run(std::string(command_line::version()));
    flush(output_);
    const auto& told = agent.told();
    if (told)
      for (const std::string& line : split_text(told->lines, '\n'))
        if (!line.empty()) say(line);
    if (told && told->code == remote::kIsLost) return kRetryElsewhere;
    // Who gives a host back with SIGUSR1 wants no other one in its place.
    if (told && told->code == remote::kHasLeft)
      return agent.signalled() != 0 && agent.signalled() != SIGUSR1 ? kRetryElsewhere : 0;
    // Where members leave by themselves, a signal is no reason to believe that the job has ended by it.
    if (agent.signalled() == SIGTERM && !(told && membership_.elastic)) return kRetryElsewhere;
    if (agent.started()) began_ = Clock::now();  // the wait for the next round
    if (told)
      return told->code == remote::kNextRound ? std::nullopt : std::optional(static_cast<int>(told->code & 0xff));
    if (agent.signalled() == SIGUSR1) return kRetryElsewhere;
    if (agent.signalled() != 0) return 128 + agent.signalled();
    if (!agent.started()) {
      say(fmt::format("member 0 ({}) has left before the job began; waits for it", membership_.leader));
      pollfd signals{.fd = process.signals.fd(), .events = POLLIN, .revents = 0};
      ::poll(&signals, 1, kPauseMs);
      return std::nullopt;
    }
    say(fmt::format("member 0 ({}) is lost: the connection to it ended, or was silent; the ranks here were ended",
                    membership_.leader));
    if (rounds_left_-- <= 0) return kRetryHere;
    say("waits for member 0 to come back");
    return std::nullopt;
  }

  const launch::RunOptions& options_;
  const Membership& membership_;
  const std::string secret_;
  int rounds_left_;
  Clock::time_point began_ = Clock::now();  // to wait for member 0
  launch::Output output_{STDOUT_FILENO, STDERR_FILENO};
};

int run_member(launch::RunOptions& options, const Membership& membership, std::string secret, const Env& env) {
  auto process = prepare(env, membership.ranks * (membership.index == 0 ? membership.count : 1));
  if (!process) return fail(process.error(), kRetryElsewhere);
  if (membership.index == 0) return Leader(options, membership, std::move(secret), env).run(*process);
  return Follower(options, membership, std::move(secret)).run(*process);
}

}  // namespace

int run_members(launch::RunOptions& options, const Membership& membership, const Env& env) {
  auto secret = launch::rendezvous_secret(options.rendezvous, env, membership);
  if (!secret) return fail(secret.error(), 2);
  const int code = run_member(options, membership, std::move(*secret), env);
  if (const std::string meaning = launch::code_in_words(code); !meaning.empty()) say(meaning);
  return code;
}

}  // namespace xoe::tools

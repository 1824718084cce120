#include "launch/cli/run.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/known_variables.h"
#include "core/base/random_token.h"
#include "core/base/text.h"
#include "core/bootstrap/store.h"
#include "core/bootstrap/world_page.h"
#include "core/command_line/command.h"
#include "core/command_line/help.h"
#include "core/command_line/version.h"
#include "launch/agents/agent_startup.h"
#include "launch/agents/elastic_hosts.h"
#include "launch/agents/remote_processes.h"
#include "launch/cli/run_members.h"
#include "launch/cli/run_texts.h"
#include "launch/cli/verbs.h"
#include "launch/kubernetes/manifest.h"
#include "launch/options/arguments.h"
#include "launch/options/run_help.h"
#include "launch/output/job_streams.h"
#include "launch/plan/cores.h"
#include "launch/remote/program.h"
#include "launch/remote/shell.h"
#include "launch/remote/spawn.h"
#include "launch/rendezvous/member_exit.h"
#include "launch/rendezvous/membership.h"
#include "launch/supervise/job.h"
#include "launch/supervise/local_job.h"

namespace xoe::tools {
namespace {

using command_line::kUsageError;
using Clock = launch::HostDiscovery::Clock;

int report(const launch::JobOutcome& outcome, const launch::RunOptions& options) {
  say_report(outcome, options);
  // The only member of a rendezvous.
  if (!options.rendezvous.at.empty()) return launch::member_code(outcome, 0, outcome.host);
  return launch::exit_code(outcome);
}

int report(const remote::HostFailure& failure, int interrupted_by) {
  for (const std::string& line : failure.lines) say(line);
  if (interrupted_by != 0)
    say(fmt::format("ended by SIG{} before all hosts were ready", ::sigabbrev_np(interrupted_by)));
  else
    say("nothing was started");
  return failure.exit_code;
}

// Until when the job waits for hosts.
struct Patience {
  Clock::time_point deadline;
  bool waits = false;  // or gives up at once
};

// Whether hosts that could not be reached are tried again.
bool tries_again(const launch::AgentStartup& start, const Patience& patience) {
  return patience.waits && start.interrupted_by() == 0 && start.only_unreachable() && Clock::now() < patience.deadline;
}

// A job on several hosts: starts it, or only checks the hosts or prints what would be started. Returns the exit code;
// nullopt: too few hosts could be reached, and they are to be tried again.
std::optional<int> start_on_hosts(launch::RunOptions& options, const launch::HostList& list, const Env& env,
                                  const Patience& patience) {
  const auto token = random_token();
  const auto secret = random_token();
  if (!token || !secret) return fail(token ? secret.error() : token.error());
  options.panel = options.panel && !options.changes_size();  // it has a row for each of the first ranks
  const auto plan = launch::plan_hosts(options, list, env, std::string(command_line::version()), *token, *secret);
  if (!plan) return fail(plan.error());
  if (options.where.dry_run) {
    for (const std::string& line : launch::describe(*plan, options)) fmt::print("{}\n", line);
    return 0;
  }
  launch::reset_child_signal();
  const auto inherited = remote::Inherited::current(env);
  const auto open_files = remote::allow_open_files(plan->slots);
  if (!open_files) return fail(open_files.error());
  // Hosts that come later have files of their own. A job that never grows so far needs no higher limit.
  if (options.elastic.changes_hosts()) std::ignore = remote::allow_open_files(bootstrap::kMostSlots);
  auto output = std::make_unique<launch::Output>(STDOUT_FILENO, STDERR_FILENO);
  auto streams = launch::open_remote_streams(options, plan->slots, *output);
  if (!streams) return fail(streams.error());
  auto signals = launch::SignalSource::open();
  if (!signals) return fail(signals.error());
  launch::AgentStartup start(options, *plan, inherited, *signals);
  auto started = start.run(!options.where.check);
  if (options.where.check)
    for (const launch::HostCheck& check : start.checks()) print_check(check);
  if (!started) {
    remote::disconnect_all(start.agents());
    if (!tries_again(start, patience)) return report(started.error(), start.interrupted_by());
    for (const std::string& line : started.error().lines) say(line);
    return std::nullopt;
  }
  if (options.where.check) {
    remote::disconnect_all(started->agents);
    return 0;
  }
  for (const std::string& line : started->missing) say(line);
  std::unique_ptr<launch::ElasticHosts> elastic;
  if (options.elastic.least > 0)
    elastic = std::make_unique<launch::ElasticHosts>(options, *plan, inherited, started->store->address());
  auto processes =
      std::make_unique<launch::RemoteProcesses>(options, plan->shares, started->agents, std::move(started->there),
                                                std::move(*streams), *output, std::move(elastic));
  const auto outcome = launch::supervise_job(options, std::move(*signals), std::move(started->store), std::move(output),
                                             std::move(processes));
  remote::disconnect_all(started->agents);
  return report(outcome, options);
}

// Waits until the user's program names enough slots.
Result<launch::HostList> discover_hosts(const launch::RunOptions& options, const Env& env, Clock::time_point deadline) {
  launch::reset_child_signal();
  const auto inherited = remote::Inherited::current(env);
  launch::HostDiscovery discovery(options.elastic, inherited);
  std::string last = "it has not answered";
  bool told = false;
  while (Clock::now() < deadline) {
    discovery.pump(Clock::now());
    if (const auto& why = discovery.hopeless()) return failure(Code::kInvalidArgument, "{}", *why);
    if (const auto problem = discovery.take_problem()) say(last = *problem);
    if (auto hosts = discovery.take()) {
      launch::HostList list{.hosts = std::move(*hosts)};
      const int slots = launch::all_slots(list);
      if (slots >= options.elastic.least) return list;
      last = fmt::format("it names {}", counted(slots, "slot"));
      if (!std::exchange(told, true))
        say(fmt::format("waits for {} (--min-np): the host discovery script names {}",
                        counted(options.elastic.least, "slot"), slots));
    }
    std::vector<pollfd> polled;
    discovery.add_to(polled);
    const auto left = std::min(discovery.next_turn(), deadline) - Clock::now();
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    ::poll(polled.data(), polled.size(), static_cast<int>(std::clamp<std::int64_t>(wait, 0, 1000)));
  }
  return failure(Code::kTimeout, "--host-discovery-script {}: no {} within {} (--elastic-timeout): {}",
                 options.elastic.discovery, counted(options.elastic.least, "slot"),
                 human_seconds(options.elastic.timeout), last);
}

// A job on several hosts. Where it goes on without hosts that fail, those that cannot be reached yet are tried again,
// for as long as the job would wait for others. Returns the exit code.
int run_on_hosts(const launch::RunOptions& given, launch::HostList list, const Env& env) {
  const launch::ElasticOptions& elastic = given.elastic;
  const Patience patience{
      .deadline = Clock::now() + elastic.timeout,
      .waits = elastic.least > 0 && !given.where.check && (elastic.changes_hosts() || given.restarts > 0)};
  for (std::chrono::nanoseconds pause = elastic.cooldown;; pause = std::min(2 * pause, elastic.longest_cooldown)) {
    launch::RunOptions options = given;
    if (const auto code = start_on_hosts(options, list, env, patience)) return *code;
    const auto left = std::max<std::chrono::nanoseconds>(patience.deadline - Clock::now(), std::chrono::seconds(1));
    pause = std::min(pause, left);
    say(fmt::format("too few hosts for {} (--min-np); they are tried again in {}, for {} at most (--elastic-timeout)",
                    counted(elastic.least, "rank"), human_seconds(pause),
                    human_seconds(std::chrono::round<std::chrono::seconds>(left))));
    std::this_thread::sleep_for(pause);
    if (!elastic.changes_hosts()) continue;
    auto named = discover_hosts(given, env, std::max(patience.deadline, Clock::now() + std::chrono::seconds(1)));
    if (!named) return fail(named.error());
    list = std::move(*named);
  }
}

Result<launch::JobPlan> plan_here(const launch::RunOptions& options, const Env& env, const std::string& program) {
  XOE_ASSIGN(const auto host, launch::read_host_facts());
  XOE_ASSIGN(const auto token, random_token());
  XOE_ASSIGN(const auto secret, random_token());
  return launch::plan_job(options, env, host, program, token, secret);
}

// Of the ranks' variables those whose names may be misspelt: the launcher's own, and those that its options set.
Env variables_of_xoe(const launch::RunOptions& options, const Env& env) {
  constexpr std::string_view kPrefix = "XOE";
  const auto& all = env.all();
  auto end = all.lower_bound(kPrefix);
  while (end != all.end() && end->first.starts_with(kPrefix)) ++end;
  std::map values(all.lower_bound(kPrefix), end);
  for (const auto& [name, value] : options.env) values[name] = value;
  return Env({values.begin(), values.end()});
}

bool suits_panel(const Env& env) {
  const auto terminal = env.text("TERM");
  return terminal && *terminal != "dumb" && !env.has("NO_COLOR");
}

// For a job on this host alone.
Status choose_size(launch::RunOptions& options, const launch::HostList& list) {
  const int slots = launch::all_slots(list);
  if (options.size == 0) options.size = options.devices.empty() ? slots : static_cast<int>(options.devices.size());
  if (options.size == 0)
    return failure(Code::kInvalidArgument, "how many ranks? For example: xoe run -np 2 {}", options.command[0]);
  if (slots != 0 && options.size > slots && !options.where.oversubscribe)
    return failure(Code::kInvalidArgument,
                   "-np {}: the hosts have {}; give more (-H {}:N), or let ranks share with --oversubscribe",
                   options.size, counted(slots, "slot"), list.hosts.front().name);
  return {};
}

int describe_here(const launch::RunOptions& options, const launch::JobPlan& plan) {
  fmt::print("this host: {}, no agent\nprogram: {}\n", counted(options.size, "rank"), plan.program);
  if (!plan.locality.empty()) fmt::print("bound {}\n", plan.locality);
  for (std::size_t rank = 0; options.binding != launch::Binding::kNone && rank < plan.ranks.size(); ++rank)
    fmt::print("rank {}: cpus {}\n", rank, launch::cpu_list_text(plan.ranks[rank].cpus));
  return 0;
}

// All ranks run on this host.
int run_here(launch::RunOptions& options, const Env& env) {
  options.panel = options.panel && options.wants_panel.value_or(options.size > 1);
  const auto program = remote::find_program(options.command.front(), env);
  if (!program) return fail(program.error(), program.error().code() == Code::kUnavailable ? 127 : 126);
  const auto plan = plan_here(options, env, *program);
  if (!plan) return fail(plan.error());
  if (options.where.dry_run || options.where.check) return describe_here(options, *plan);
  const auto outcome = launch::run_job(options, *plan, STDOUT_FILENO, STDERR_FILENO);
  if (!outcome) return fail(outcome.error());
  return report(*outcome, options);
}

// Becomes `xoe pool run`, which starts `xoe run` again with the GPUs that it got.
int run_in_pool(const launch::RunArguments& parsed) {
  std::vector<std::string> words = {program_of("pool"), "run", "--ranks"};
  const launch::RunOptions& options = parsed.options;
  words.insert(words.end(), options.pool_words.begin(), options.pool_words.end());
  words.emplace_back("--");
  words.insert(words.end(), parsed.own_words.begin(), parsed.own_words.end());
  words.emplace_back("--");
  words.insert(words.end(), options.command.begin(), options.command.end());
  ::execv(words[0].c_str(), remote::c_strings(words).data());
  const int code = errno == ENOENT ? 127 : 126;
  say(errno == ENOENT ? fmt::format("--pool: the program {} is not there: this Xoe was built without it", words[0])
                      : fmt::format("--pool: cannot run {}: {}", words[0], errno_text(errno)));
  return code;
}

// The manifest repeats the command line.
int print_kubernetes(const launch::RunArguments& parsed, std::span<const std::string_view> arguments) {
  const auto secret = random_token();
  if (!secret) return fail(secret.error());
  std::vector<std::string> line = {"xoe", "run"};
  line.insert(line.end(), arguments.begin(), arguments.end());
  launch::Manifest manifest{.options = parsed.manifest,
                            .nodes = parsed.options.rendezvous.nodes,
                            .ranks_per_node = std::max(1, parsed.options.size),
                            .run_options = parsed.own_words,
                            .program = parsed.options.command,
                            .secret = *secret,
                            .command_line = std::move(line)};
  if (const launch::RendezvousOptions& members = parsed.options.rendezvous; members.least_nodes > 0)
    manifest.run_options.insert(manifest.run_options.end(),
                                {"--nodes", fmt::format("{}:{}", members.least_nodes, members.nodes)});
  // xoe run must have the time that it is told to give its ranks.
  const auto limit = std::chrono::ceil<std::chrono::seconds>(parsed.options.signal_limit);
  if (limit != launch::RunOptions().signal_limit)
    manifest.grace_seconds = static_cast<int>(std::min<std::int64_t>(limit.count(), 86'400)) + 10;
  const auto text = launch::print_manifest(manifest);
  return text ? print(*text) : fail(text.error());
}

}  // namespace

int run(std::span<const std::string_view> arguments) {
  auto parsed = launch::parse_run_arguments(arguments);
  if (!parsed) return fail(parsed.error(), kUsageError);
  if (parsed->help) return print(command_line::help_text(launch::run_command()));
  if (parsed->version) return print(fmt::format("xoe {}\n", command_line::version()));
  if (parsed->manifest.kind != launch::ManifestKind::kNone) return print_kubernetes(*parsed, arguments);
  launch::RunOptions& options = parsed->options;
  const Env env = Env::process();
  if (options.module) options.command.front() = remote::python_program(env);
  if (options.pool) return run_in_pool(*parsed);
  options.color = !env.has("NO_COLOR");
  // Files of ranks hold their bytes as they are, and a bar is thousands of lines there.
  options.terminal = ::isatty(STDOUT_FILENO) == 1 && options.output_dir.empty();
  options.panel = ::isatty(STDOUT_FILENO) == 1 && options.wants_panel.value_or(suits_panel(env));
  for (const std::string& note : options.notes) say(note);
  for (const std::string& sentence : misspelt_variables(variables_of_xoe(options, env))) say(sentence);
  if (!options.rendezvous.at.empty()) {
    const auto membership = launch::find_membership(options, env, launch::read_member_facts(env));
    if (!membership) return fail(membership.error(), kUsageError);
    if (options.where.dry_run) return print(launch::describe(*membership) + "\n");
    if (membership->count > 1) return run_members(options, *membership, env);
    options.size = membership->ranks;
    return run_here(options, env);
  }
  auto hosts = options.elastic.changes_hosts() ? discover_hosts(options, env, Clock::now() + options.elastic.timeout)
                                               : launch::find_hosts(options, env);
  if (!hosts) return fail(hosts.error());
  // Agents watch for notices, so this host has one, too.
  const bool watches = !options.elastic.notices.empty();
  if (watches && hosts->hosts.empty() && options.size > 0)
    hosts->hosts.push_back({.name = "localhost", .slots = options.size});
  if (!hosts->note.empty()) say(hosts->note);
  if (options.elastic.most > 0 && hosts->hosts.empty())
    return fail(Error(Code::kInvalidArgument,
                      "--max-np: where are the slots? Name hosts with -H, or with --host-discovery-script"),
                kUsageError);
  if (!hosts->hosts.empty() &&
      (!launch::all_here(*hosts) || options.elastic.most > 0 || options.elastic.changes_hosts() || watches)) {
    if (options.resize_fd >= 0)
      return fail(Error(Code::kInvalidArgument, "--resize is for a job on this host, without -H"));
    return run_on_hosts(options, std::move(*hosts), env);
  }
  if (const auto sized = choose_size(options, *hosts); !sized) return fail(sized.error(), kUsageError);
  return run_here(options, env);
}

}  // namespace xoe::tools

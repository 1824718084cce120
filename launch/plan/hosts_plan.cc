#include "launch/plan/hosts_plan.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <system_error>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/text_file.h"
#include "core/bootstrap/foreign_env.h"
#include "core/bootstrap/status_page.h"
#include "core/bootstrap/world_page.h"
#include "launch/plan/binding.h"
#include "launch/plan/job_plan.h"
#include "launch/plan/placement.h"
#include "launch/remote/program.h"
#include "launch/remote/shell.h"

namespace xoe::launch {
namespace {

using remote::LaunchMethod;

constexpr auto kDefaultRankTimeout = std::chrono::seconds(60);  // of ranks with each other at their start

Result<std::vector<remote::Host>> slurm_hosts(const std::string& nodes, const Env& env) {
  const auto names = remote::expand_hostlist(nodes);
  if (!names)
    return failure(Code::kInvalidArgument, "environment variable SLURM_JOB_NODELIST: {}", names.error().message());
  std::vector<int> counts(names->size(), 1);
  if (const auto tasks = env.text("SLURM_TASKS_PER_NODE")) {
    const auto expanded = expand_counts(*tasks);
    if (!expanded || expanded->size() != names->size())
      return failure(Code::kInvalidArgument, "environment variable SLURM_TASKS_PER_NODE={} does not fit the nodes {}",
                     *tasks, nodes);
    counts = *expanded;
  }
  std::vector<remote::Host> hosts;
  for (std::size_t i = 0; i < names->size(); ++i)
    if (counts[i] > 0) hosts.push_back({.name = (*names)[i], .slots = counts[i]});
  return hosts;
}

// A batch system that writes the job's hosts to a file, a line for each slot.
struct BatchSystem {
  std::string_view job;
  std::string_view hostfile;
  std::string_view agent;  // starts a program on one of them
};
constexpr std::array kBatchSystems{BatchSystem{"PBS_JOBID", "PBS_NODEFILE", {}},
                                   BatchSystem{"LSB_JOBID", "LSB_DJOB_HOSTFILE", "blaunch"}};

Result<HostList> hosts_of(const BatchSystem& system, const std::string& path, const Env& env) {
  const auto text = read_text_file(path);
  if (!text)
    return failure(Code::kInvalidArgument, "environment variable {}={}: {}", system.hostfile, path,
                   text.error().message());
  XOE_ASSIGN(auto hosts, remote::parse_hostfile(*text, path));
  HostList list{.hosts = std::move(hosts)};
  if (!system.agent.empty() && remote::find_program(system.agent, env)) list.agent = system.agent;
  return list;
}

bool is_rank_already(const Env& env) {
  return env.has("XOE_RANK") || bootstrap::started_by_torchrun(env) || bootstrap::started_by_slurm(env) ||
         bootstrap::started_by_openmpi(env) || bootstrap::started_by_jsrun(env) || bootstrap::started_by_mpich(env);
}

// A job that grows has room for all slots of its hosts from the start.
Result<int> places_of(RunOptions& options, const HostList& list) {
  ElasticOptions& elastic = options.elastic;
  const int slots = all_slots(list);
  if (options.size == 0) options.size = elastic.most > 0 ? std::min(slots, elastic.most) : slots;
  if (elastic.least == 0) return options.size;
  if (elastic.most == 0) elastic.most = elastic.changes_hosts() ? bootstrap::kMostSlots : options.size;
  if (elastic.changes_hosts()) options.size = std::min(options.size, slots);  // the others may come
  if (options.size < elastic.least)
    return failure(Code::kInvalidArgument, "--min-np {}: the hosts have {}", elastic.least, counted(slots, "slot"));
  const int places = std::max(options.size, slots);
  if (places > bootstrap::kMostSlots)
    return failure(Code::kInvalidArgument, "--min-np: the hosts have {}; a job whose ranks come and go has at most {}",
                   counted(places, "slot"), bootstrap::kMostSlots);
  return places;
}

LaunchMethod method_for(const remote::Host& host, const HostList& list, const HostOptions& where, const Env& env) {
  if (!list.meeting_at.empty()) return &host == &list.hosts.front() ? LaunchMethod::kHere : LaunchMethod::kJoined;
  if (list.slurm) return env.text("SLURMD_NODENAME") == host.name ? LaunchMethod::kHere : LaunchMethod::kSrun;
  if (remote::names_this_host(host.name, remote::this_hostname())) return LaunchMethod::kHere;
  return where.connect.launch_agent.empty() ? LaunchMethod::kSsh : LaunchMethod::kCustom;
}

// srun reaches all nodes of an allocation through a tree of its own.
void plan_relays(std::vector<HostShare>& shares, std::size_t fan_out) {
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < shares.size(); ++i)
    if (shares[i].method == LaunchMethod::kSsh || shares[i].method == LaunchMethod::kCustom) others.push_back(i);
  const auto relays = plan_fan_out(others.size(), fan_out);
  for (std::size_t i = 0; i < others.size(); ++i)
    if (relays[i]) shares[others[i]].relay = others[*relays[i]];
}

// The user's shell may name the same folder by a link or an automounter's path: other hosts have it by that name.
Result<std::string> working_directory(const Env& env) {
  std::error_code error;
  const auto actual = std::filesystem::current_path(error);
  if (error)
    return failure(Code::kUnavailable, "the working directory is gone ({}); change to one that exists",
                   error.message());
  struct stat named = {};
  struct stat real = {};
  if (const auto name = env.text("PWD"); name && name->starts_with('/') && ::stat(name->c_str(), &named) == 0 &&
                                         ::stat(".", &real) == 0 && named.st_dev == real.st_dev &&
                                         named.st_ino == real.st_ino)
    return *name;
  return actual.string();
}

bool passed_on(std::string_view name) {
  static constexpr std::array<std::string_view, 3> kPassed{"PATH", "LD_LIBRARY_PATH", "PYTHONPATH"};
  if (std::ranges::find(kPassed, name) != kPassed.end()) return true;
  return (name.starts_with("XOE_") || name.starts_with("HOROVOD_")) && !set_by_launcher(name);
}

Result<std::vector<std::pair<std::string, std::string>>> variables_of(const RunOptions& options, const Env& env) {
  XOE_TRY(check_only_ranks(options));
  XOE_TRY(check_env(options));
  std::vector<std::pair<std::string, std::string>> all;
  // Where hosts are slow to become ready, ranks are slow to connect.
  if (const auto timeout = options.where.connect.start_timeout; timeout > kDefaultRankTimeout)
    all.emplace_back("XOE_START_TIMEOUT", fmt::format("{}", std::chrono::duration<double>(timeout).count()));
  if (options.terminal) all.emplace_back("XOE_TERMINAL", "1");
  if (options.panel) all.emplace_back(bootstrap::kStatusVariable, "1");
  if (options.changes_size()) all.emplace_back(bootstrap::kWorldVariable, "1");
  if (options.elastic.least > 0) all.emplace_back("XOE_MIN_RANKS", std::to_string(options.elastic.least));
  for (const auto& [name, value] : env.all())
    if (passed_on(name)) all.emplace_back(name, value);
  XOE_ASSIGN(const auto passed, passed_variables(options, env));
  all.insert(all.end(), passed.begin(), passed.end());
  all.insert(all.end(), options.env.begin(), options.env.end());
  return all;
}

}  // namespace

Result<HostList> find_hosts(const RunOptions& options, const Env& env) {
  HostList list{.hosts = options.where.hosts};
  if (!options.where.hostfile.empty()) {
    XOE_ASSIGN(list.hosts, remote::read_hostfile(options.where.hostfile));
  }
  if (!list.hosts.empty() || is_rank_already(env)) return list;
  if (const auto nodes = env.text("SLURM_JOB_NODELIST")) {
    XOE_ASSIGN(list.hosts, slurm_hosts(*nodes, env));
    list.slurm = true;
    return list;
  }
  for (const BatchSystem& system : kBatchSystems) {
    const auto path = env.text(system.hostfile);
    // A job that names GPUs, or changes its number of ranks, runs on this host.
    if (!path || !env.has(system.job) || !options.devices.empty() || options.changes_size()) continue;
    auto given = hosts_of(system, *path, env);
    if (!given && options.size == 0) return given;
    if (!given) {
      list.note = given.error().message() + "; the ranks run on this host (-H names others)";
      return list;
    }
    if (options.size == 0 || !all_here(*given)) return given;
  }
  return list;
}

bool all_here(const HostList& list) {
  return !list.slurm && std::ranges::all_of(list.hosts, [host = remote::this_hostname()](const remote::Host& one) {
    return remote::names_this_host(one.name, host);
  });
}

int all_slots(const HostList& list) {
  return std::accumulate(list.hosts.begin(), list.hosts.end(), 0,
                         [](int sum, const remote::Host& host) { return sum + host.slots; });
}

Result<HostsPlan> plan_hosts(RunOptions& options, const HostList& list, const Env& env, const std::string& version,
                             const std::string& token, const std::string& secret) {
  HostsPlan plan{
      .shares = {}, .version = version, .job = token, .secret = secret, .directory = {}, .first_host = {}, .env = {}};
  XOE_ASSIGN(plan.slots, places_of(options, list));
  auto& connect = options.where.connect;
  if (connect.launch_agent.empty() && connect.ssh_command.empty()) connect.launch_agent = list.agent;
  if (connect.host_timeout.count() == 0) {
    XOE_ASSIGN(const auto seconds, env.seconds("XOE_HOST_TIMEOUT"));
    connect.host_timeout =
        std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds.value_or(10)));
  }
  if (!options.devices.empty() && std::ssize(options.devices) != options.size)
    return failure(Code::kInvalidArgument, "--devices: there are {} for {}: one for each, in the order of the ranks",
                   options.devices.size(), counted(options.size, "rank"));
  if (!options.devices.empty() && plan.slots != options.size)
    return failure(Code::kInvalidArgument, "{}",
                   "--devices names the GPUs of the ranks at the start; hosts with further slots share theirs out");
  XOE_ASSIGN(auto placed, place_ranks(list.hosts, plan.slots, options.where.map_by, options.where.oversubscribe));
  if (!options.devices.empty())
    for (auto& ranks : placed)
      for (AgentRank& rank : ranks) rank.device = options.devices[static_cast<std::size_t>(rank.rank)];
  for (std::size_t i = 0; i < placed.size(); ++i)
    if (!placed[i].empty())
      plan.shares.push_back({.host = list.hosts[i],
                             .method = method_for(list.hosts[i], list, options.where, env),
                             .ranks = std::move(placed[i])});
  // A host that comes and goes is no way to others.
  if (!options.changes_size()) plan_relays(plan.shares, static_cast<std::size_t>(options.where.fan_out));
  if (connect.xoe_path.empty()) {
    std::error_code error;
    connect.xoe_path = std::filesystem::read_symlink("/proc/self/exe", error).string();
    if (error) return failure(Code::kUnavailable, "cannot read /proc/self/exe: {}", error.message());
  }
  plan.slurm = list.slurm;
  plan.first_host = list.meeting_at.empty() ? plan.shares.front().host.name : list.meeting_at;
  XOE_ASSIGN(plan.directory, working_directory(env));
  XOE_ASSIGN(plan.env, variables_of(options, env));
  return plan;
}

HostShare new_share(const HostsPlan& plan, const remote::Host& host, const RunOptions& options, const Env& env,
                    int first_slot) {
  HostShare share{.host = host, .method = plan.slurm ? LaunchMethod::kSrun : LaunchMethod::kSsh};
  if (!plan.slurm) share.method = method_for(host, {}, options.where, env);
  for (int i = 0; i < host.slots; ++i) share.ranks.push_back({.rank = first_slot + i});
  return share;
}

int started_of(const HostShare& share, const RunOptions& options) {
  return static_cast<int>(
      std::ranges::count_if(share.ranks, [&](const AgentRank& rank) { return rank.rank < options.size; }));
}

AgentJob job_for(const HostsPlan& plan, const HostShare& share, const RunOptions& options, const std::string& store,
                 int first) {
  return {.host = share.host.name,
          .first_host = plan.first_host,
          .job = plan.job,
          .secret = plan.secret,
          .store = store,
          .network_interface = options.where.network_interface,
          .backend = options.backend,
          .directory = plan.directory,
          .command = options.command,
          .env = plan.env,
          .ranks = share.ranks,
          .first = first,
          .size = std::max(plan.slots, share.ranks.back().rank + 1),
          .binding = options.binding,
          .by_socket = options.where.map_by == MapBy::kSocket,
          .bind_gpus = options.where.bind_gpus,
          .restarts = options.restarts > 0 || options.changes_size(),
          .notices = options.elastic.notices,
          .host_timeout = options.where.connect.host_timeout};
}

std::vector<std::string> describe(const HostsPlan& plan, const RunOptions& options) {
  std::vector<std::string> lines;
  for (const HostShare& share : plan.shares) {
    std::string ranks;
    for (const AgentRank& rank : share.ranks)
      ranks += fmt::format(" {}{}{}", rank.rank, rank.device.empty() ? "" : " on ", rank.device);
    const std::string from =
        share.relay ? fmt::format(" (reached from {})", plan.shares[*share.relay].host.name) : std::string();
    lines.push_back(
        fmt::format("host {}{}: rank{}{}", share.host.name, from, share.ranks.size() == 1 ? "" : "s", ranks));
    lines.push_back(
        fmt::format("  {}", remote::shell_line(remote::agent_command(share.host.name, share.method,
                                                                     options.where.connect, share.relay.has_value()))));
  }
  if (options.binding != Binding::kNone) lines.push_back(fmt::format("on each host {}", describe(options.binding)));
  lines.push_back(fmt::format("program: {}", remote::shell_line(options.command)));
  lines.push_back(fmt::format("in folder: {}", plan.directory));
  // Values may be secret.
  std::string names;
  for (const auto& [name, value] : plan.env) names += fmt::format(" {}", name);
  lines.push_back(fmt::format("variables passed on:{}", names));
  return lines;
}

}  // namespace xoe::launch

#include "launch/plan/job_plan.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/text.h"
#include "core/bootstrap/status_page.h"
#include "core/bootstrap/world_page.h"
#include "launch/plan/binding.h"
#include "launch/plan/jax_variables.h"
#include "xoe/collective.h"

namespace xoe::launch {
namespace {

constexpr std::array<std::string_view, 15> kOwnVariables{"XOE_RANK",
                                                         "XOE_SIZE",
                                                         "XOE_LOCAL_RANK",
                                                         "XOE_LOCAL_SIZE",
                                                         "XOE_CROSS_RANK",
                                                         "XOE_CROSS_SIZE",
                                                         "XOE_JOB",
                                                         "XOE_STORE",
                                                         "XOE_SECRET",
                                                         "XOE_HOSTNAME",
                                                         "XOE_RESTARTS",
                                                         "XOE_MIN_RANKS",
                                                         "XOE_TERMINAL",
                                                         bootstrap::kStatusVariable,
                                                         bootstrap::kWorldVariable};

Status check_options(const RunOptions& options) {
  if (options.size < 1) return failure(Code::kInvalidArgument, "-np {}: a job has at least 1 rank", options.size);
  if (options.size > kMaxRanksPerHost)
    return failure(Code::kInvalidArgument,
                   "-np {}: at most {} ranks run on one host: Xoe's shared-memory engine connects no more",
                   options.size, kMaxRanksPerHost);
  if (options.slots() < options.size || options.slots() > kMaxRanksPerHost)
    return failure(Code::kInvalidArgument, "--resize: the most ranks are {}; expected {} to {}", options.slots(),
                   options.size, kMaxRanksPerHost);
  if (options.elastic.least > 0 && options.resize_fd >= 0)
    return failure(Code::kInvalidArgument, "--min-np with --resize: the other program says how many ranks there are");
  if (options.elastic.least > options.size)
    return failure(Code::kInvalidArgument, "--min-np {}: there are only {} (-np, or the slots of -H)",
                   options.elastic.least, counted(options.size, "rank"));
  if (!options.devices.empty() && std::ssize(options.devices) != options.size)
    return failure(Code::kInvalidArgument, "--devices: there are {} for {}: one for each", options.devices.size(),
                   counted(options.size, "rank"));
  XOE_TRY(check_only_ranks(options));
  return check_env(options);
}

// The same for all ranks of a host.
void set_shared_variables(Variables& all, int usable_cores, int ranks, bool restarts) {
  // Unless the user says otherwise, the threads of all ranks together fill the host once, and Python's output is seen
  // when it is printed, also before a crash.
  all.try_emplace("OMP_NUM_THREADS", std::to_string(std::max(1, usable_cores / ranks)));
  all.try_emplace("PYTHONUNBUFFERED", "1");
  for (const char* of_outer_job : {"XOE_HOSTNAME", "XOE_RESTARTS"}) all.erase(of_outer_job);
  if (restarts) all["XOE_RESTARTS"] = "1";
}

// Appends a rank with these variables and those of its place. Among them are torchrun's, since many programs read
// nothing else; MASTER_ADDR and MASTER_PORT, for a PyTorch process group, keep a value that they have; else they are
// `first_host`, rank 0's, and a port made from the job's name without looking whether it is free. `host`: its number
// among those that have ranks.
void add_rank(JobPlan& plan, Variables& variables, const Topology& at, int host, const std::string& first_host,
              std::vector<int> cpus) {
  constexpr std::uint64_t kFirstPort = 20000, kPorts = 10000;  // below the kernels' ephemeral ports
  variables["XOE_RANK"] = variables["RANK"] = std::to_string(at.rank);
  variables["XOE_SIZE"] = variables["WORLD_SIZE"] = std::to_string(at.size);
  variables["XOE_LOCAL_RANK"] = variables["LOCAL_RANK"] = std::to_string(at.local_rank);
  variables["XOE_LOCAL_SIZE"] = variables["LOCAL_WORLD_SIZE"] = std::to_string(at.local_size);
  variables["XOE_CROSS_RANK"] = std::to_string(at.cross_rank);
  variables["XOE_CROSS_SIZE"] = std::to_string(at.cross_size);
  variables["GROUP_RANK"] = std::to_string(host);
  variables["XOE_JOB"] = variables["TORCHELASTIC_RUN_ID"] = plan.job;
  variables["XOE_STORE"] = plan.store;
  variables["XOE_SECRET"] = plan.secret;
  variables.try_emplace("MASTER_ADDR", first_host);
  variables.try_emplace("MASTER_PORT", std::to_string(kFirstPort + hash_text(plan.job) % kPorts));
  if (plan.jax) set_jax_variables(variables, at, first_host, plan.job);
  RankPlan& one = plan.ranks.emplace_back();
  one.cpus = std::move(cpus);
  one.environment.reserve(variables.size());
  for (const auto& [name, value] : variables) one.environment.push_back(fmt::format("{}={}", name, value));
}

}  // namespace

bool set_by_launcher(std::string_view name) noexcept {
  return std::ranges::find(kOwnVariables, name) != kOwnVariables.end();
}

Status check_only_ranks(const RunOptions& options) {
  for (const int rank : options.only_ranks.value_or(std::vector<int>()))
    if (rank >= options.slots())
      return failure(Code::kInvalidArgument, "--only-rank {}: there are {}, from 0", rank,
                     counted(options.slots(), "rank"));
  return {};
}

Status check_env(const RunOptions& options) {
  for (const auto& [name, value] : options.env)
    if (set_by_launcher(name))
      return failure(Code::kInvalidArgument, "--env {}={}: xoe run sets this variable itself", name, value);
  for (const std::string& name : options.pass_env)
    if (set_by_launcher(name))
      return failure(Code::kInvalidArgument, "--env {}: xoe run sets this variable itself", name);
  return {};
}

Result<std::vector<std::pair<std::string, std::string>>> passed_variables(const RunOptions& options, const Env& env) {
  std::vector<std::pair<std::string, std::string>> passed;
  for (const std::string& name : options.pass_env) {
    const auto found = env.all().find(name);
    if (found == env.all().end())
      return failure(Code::kInvalidArgument, "--env {}: it is not set here; give a value with --env {}=VALUE", name,
                     name);
    passed.emplace_back(*found);
  }
  return passed;
}

Result<JobPlan> plan_job(const RunOptions& options, const Env& env, const HostFacts& host, const std::string& program,
                         const std::string& token, const std::string& secret) {
  XOE_TRY(check_options(options));
  XOE_TRY(passed_variables(options, env));  // here all variables are passed on, but a missing one is an error
  JobPlan plan{
      .program = program, .arguments = options.command, .job = token, .store = {}, .secret = secret, .ranks = {}};
  plan.store = fmt::format("unix:@xoe-{}-{}", ::geteuid(), token);

  Variables variables = env.all();
  if (!options.devices.empty()) variables["CUDA_VISIBLE_DEVICES"] = fmt::format("{}", fmt::join(options.devices, ","));
  XOE_ASSIGN(auto bound, bind_ranks(options.binding, options.where.map_by == MapBy::kSocket,
                                    static_cast<std::size_t>(options.slots()), Env(variables), host));
  plan.locality = std::move(bound.locality);
  for (const auto& [name, value] : options.env) variables[name] = value;
  variables.erase("XOE_TERMINAL");  // of an outer job
  if (options.terminal) variables["XOE_TERMINAL"] = "1";
  variables.erase(bootstrap::kStatusVariable);
  if (options.panel) variables[bootstrap::kStatusVariable] = "1";
  variables.erase(bootstrap::kWorldVariable);
  const bool changes = options.changes_size();
  if (changes) variables[bootstrap::kWorldVariable] = "1";
  variables.erase("XOE_MIN_RANKS");
  if (options.elastic.least > 0) variables["XOE_MIN_RANKS"] = std::to_string(options.elastic.least);
  if (!options.backend.empty()) variables["XOE_BACKEND"] = options.backend;
  if (!options.where.network_interface.empty()) variables["XOE_INTERFACE"] = options.where.network_interface;
  XOE_ASSIGN(plan.jax, wants_jax(variables));
  // A job that changes its size has a plan for each slot; the store says which of them are ranks now.
  const int slots = options.slots();
  set_shared_variables(variables, host.usable_cores, slots, options.restarts > 0 || changes);
  for (int rank = 0; rank < slots; ++rank) {
    const auto slot = static_cast<std::size_t>(rank);
    if (slot < options.devices.size()) variables["CUDA_VISIBLE_DEVICES"] = options.devices[slot];
    add_rank(plan, variables, {.rank = rank, .size = slots, .local_rank = rank, .local_size = slots}, 0, "127.0.0.1",
             std::move(bound.cpus[slot]));
  }
  return plan;
}

Env agent_env(const AgentJob& job, const Env& own) {
  auto all = own.all();
  std::erase_if(all, [](const auto& entry) { return set_by_launcher(entry.first); });
  for (const auto& [name, value] : job.env) all.insert_or_assign(name, value);
  return Env(std::move(all));
}

std::vector<std::string> share_devices(const Env& variables, std::size_t ranks) {
  const auto list = variables.text("CUDA_VISIBLE_DEVICES");
  if (!list) return {};
  auto devices = split_text(*list, ',');
  if (devices.size() < ranks || devices.size() < 2) return {};
  devices.resize(ranks);
  return devices;
}

Result<JobPlan> plan_host(const AgentJob& job, const Env& env, const HostFacts& facts, const std::string& program) {
  const int here = static_cast<int>(job.ranks.size());
  JobPlan plan{.program = program,
               .arguments = job.command,
               .job = job.job,
               .store = job.store,
               .secret = job.secret,
               .ranks = {}};
  auto variables = env.all();
  std::vector<std::string> devices;
  for (const AgentRank& rank : job.ranks)
    if (!rank.device.empty()) devices.push_back(rank.device);
  const bool named = devices.size() == job.ranks.size();
  if (named) variables["CUDA_VISIBLE_DEVICES"] = fmt::format("{}", fmt::join(devices, ","));
  XOE_ASSIGN(auto bound, bind_ranks(job.binding, job.by_socket, job.ranks.size(), Env(variables), facts));
  plan.locality = std::move(bound.locality);
  XOE_ASSIGN(plan.jax, wants_jax(variables));
  set_shared_variables(variables, facts.usable_cores, here, job.restarts);
  variables["XOE_HOSTNAME"] = job.host;
  if (!job.network_interface.empty()) variables["XOE_INTERFACE"] = job.network_interface;
  if (!job.backend.empty()) variables["XOE_BACKEND"] = job.backend;
  variables["XOE_HOST_TIMEOUT"] = fmt::format("{}", std::chrono::duration<double>(job.host_timeout).count());
  if (!named) devices = job.bind_gpus ? share_devices(env, job.ranks.size()) : std::vector<std::string>();
  for (std::size_t local = 0; local < job.ranks.size(); ++local) {
    const AgentRank& rank = job.ranks[local];
    if (!devices.empty()) variables["CUDA_VISIBLE_DEVICES"] = devices[local];
    // Every host has a local rank 0, which counts the hosts.
    add_rank(plan, variables,
             {.rank = rank.rank,
              .size = job.size,
              .local_rank = static_cast<int>(local),
              .local_size = here,
              .cross_rank = rank.cross_rank,
              .cross_size = rank.cross_size},
             job.ranks[0].cross_rank, job.first_host, std::move(bound.cpus[local]));
  }
  return plan;
}

}  // namespace xoe::launch

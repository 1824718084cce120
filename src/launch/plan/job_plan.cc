#include "launch/plan/job_plan.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "launch/plan/binding.h"
#include "launch/plan/cores.h"
#include "launch/plan/torch_variables.h"

namespace xoe::launch {
namespace {

constexpr std::array<std::string_view, 11> kOwnVariables{
    "XOE_RANK", "XOE_SIZE",  "XOE_LOCAL_RANK", "XOE_LOCAL_SIZE", "XOE_CROSS_RANK", "XOE_CROSS_SIZE",
    "XOE_JOB",  "XOE_STORE", "XOE_SECRET",     "XOE_HOSTNAME",   "XOE_RESTARTS"};

using Variables = std::map<std::string, std::string, std::less<>>;

Status check_options(const RunOptions& options) {
  if (options.size < 1) return failure(Code::kInvalidArgument, "-np {}: a job has at least 1 rank", options.size);
  if (options.size > kMaxRanksPerHost)
    return failure(Code::kInvalidArgument,
                   "-np {}: at most {} ranks run on one host: Xoe's shared-memory engine connects no more",
                   options.size, kMaxRanksPerHost);
  return check_env(options);
}

Variables common_variables(const RunOptions& options, const Env& env, const HostFacts& host) {
  Variables all = env.all();
  // Unless the user says otherwise, the threads of all ranks together fill the host once, and Python's output is seen
  // when it is printed, also before a crash.
  all.try_emplace("OMP_NUM_THREADS", std::to_string(std::max(1, host.usable_cores / options.size)));
  all.try_emplace("PYTHONUNBUFFERED", "1");
  if (!options.backend.empty()) all.insert_or_assign("XOE_BACKEND", options.backend);
  if (!options.where.network_interface.empty()) all.insert_or_assign("XOE_INTERFACE", options.where.network_interface);
  for (const auto& [name, value] : options.env) all.insert_or_assign(name, value);
  for (const char* of_outer_job : {"XOE_HOSTNAME", "XOE_RESTARTS"}) all.erase(of_outer_job);
  return all;
}

}  // namespace

bool set_by_launcher(std::string_view name) noexcept {
  return std::ranges::find(kOwnVariables, name) != kOwnVariables.end();
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

Result<HostFacts> read_host_facts() {
  HostFacts host;
  XOE_ASSIGN(host.allowed_cpus, allowed_cpus());
  host.usable_cores = usable_cores(host.allowed_cpus.size());
  return host;
}

Result<JobPlan> plan_job(const RunOptions& options, const Env& env, const HostFacts& host, const std::string& program,
                         const std::string& token, const std::string& secret) {
  XOE_TRY(check_options(options));
  XOE_TRY(passed_variables(options, env));  // here all variables are passed on, but a missing one is an error
  JobPlan plan{
      .program = program, .arguments = options.command, .job = token, .store = {}, .secret = secret, .ranks = {}};
  plan.store = fmt::format("unix:@xoe-{}-{}", ::geteuid(), token);

  XOE_ASSIGN(auto bound, bind_ranks(options.binding, options.where.map_by == MapBy::kSocket,
                                    static_cast<std::size_t>(options.size), env, host));
  plan.locality = std::move(bound.locality);
  Variables variables = common_variables(options, env, host);
  const std::string size = std::to_string(options.size);
  variables["XOE_SIZE"] = variables["XOE_LOCAL_SIZE"] = size;
  variables["XOE_CROSS_RANK"] = "0";
  variables["XOE_CROSS_SIZE"] = "1";
  variables["XOE_JOB"] = plan.job;
  variables["XOE_STORE"] = plan.store;
  variables["XOE_SECRET"] = plan.secret;
  if (options.restarts > 0) variables["XOE_RESTARTS"] = "1";
  for (int rank = 0; rank < options.size; ++rank) {
    variables["XOE_RANK"] = variables["XOE_LOCAL_RANK"] = std::to_string(rank);
    set_torch_variables(variables, {.rank = rank, .size = options.size, .local_rank = rank, .local_size = options.size},
                        plan.job, "127.0.0.1");
    RankPlan& one = plan.ranks.emplace_back();
    one.cpus = std::move(bound.cpus[static_cast<std::size_t>(rank)]);
    one.environment.reserve(variables.size());
    for (const auto& [name, value] : variables) one.environment.push_back(fmt::format("{}={}", name, value));
  }
  return plan;
}

}  // namespace xoe::launch

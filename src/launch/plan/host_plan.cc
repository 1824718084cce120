#include "launch/plan/host_plan.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "launch/plan/binding.h"
#include "launch/plan/torch_variables.h"

namespace xoe::launch {

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
  XOE_ASSIGN(auto bound, bind_ranks(job.binding, job.by_socket, job.ranks.size(), env, facts));
  plan.locality = std::move(bound.locality);
  auto variables = env.all();
  variables.try_emplace("OMP_NUM_THREADS", std::to_string(std::max(1, facts.usable_cores / here)));
  variables.try_emplace("PYTHONUNBUFFERED", "1");
  variables["XOE_SIZE"] = std::to_string(job.size);
  variables["XOE_LOCAL_SIZE"] = std::to_string(here);
  variables["XOE_JOB"] = job.job;
  variables["XOE_STORE"] = job.store;
  variables["XOE_SECRET"] = job.secret;
  variables["XOE_HOSTNAME"] = job.host;
  variables.erase("XOE_RESTARTS");
  if (job.restarts) variables["XOE_RESTARTS"] = "1";
  if (!job.network_interface.empty()) variables["XOE_INTERFACE"] = job.network_interface;
  if (!job.backend.empty()) variables["XOE_BACKEND"] = job.backend;
  variables["XOE_HOST_TIMEOUT"] = fmt::format("{}", std::chrono::duration<double>(job.host_timeout).count());
  const auto devices = job.bind_gpus ? share_devices(env, job.ranks.size()) : std::vector<std::string>();
  for (std::size_t local = 0; local < job.ranks.size(); ++local) {
    variables["XOE_RANK"] = std::to_string(job.ranks[local].rank);
    variables["XOE_LOCAL_RANK"] = std::to_string(local);
    variables["XOE_CROSS_RANK"] = std::to_string(job.ranks[local].cross_rank);
    variables["XOE_CROSS_SIZE"] = std::to_string(job.ranks[local].cross_size);
    // Every host has a local rank 0, which counts the hosts.
    set_torch_variables(variables,
                        {.rank = job.ranks[local].rank,
                         .size = job.size,
                         .local_rank = static_cast<int>(local),
                         .local_size = here,
                         .host = job.ranks[0].cross_rank},
                        job.job, job.first_host);
    if (!devices.empty()) variables["CUDA_VISIBLE_DEVICES"] = devices[local];
    RankPlan& one = plan.ranks.emplace_back();
    one.cpus = std::move(bound.cpus[local]);
    one.environment.reserve(variables.size());
    for (const auto& [name, value] : variables) one.environment.push_back(fmt::format("{}={}", name, value));
  }
  return plan;
}

}  // namespace xoe::launch

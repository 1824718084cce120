// Everything about a job on several hosts that is known before the first of them is asked.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/env.h"
#include "launch/host_link.h"
#include "launch/options.h"
#include "xoe/status.h"

namespace xoe::launch {

struct HostsPlan {
  std::vector<HostShare> shares;
  std::string xoe_path;  // on the hosts
  std::string version;   // of this Xoe
  std::string job;
  std::string secret;
  std::string directory;
  std::vector<std::pair<std::string, std::string>> env;  // for the ranks of all hosts
};

// Hosts that the user or Slurm names. `slurm`: they are nodes of the allocation.
struct HostList {
  std::vector<Host> hosts;
  bool slurm = false;
};

// -H, --hostfile, or the nodes of the Slurm allocation around us; empty when there is none of them.
Result<HostList> find_hosts(const RunOptions& options, const Env& env);

// The job is only for this host, and no Slurm step is needed: no agent is either.
bool all_here(const HostList& list);
int all_slots(const HostList& list);

// Fills in `options.size` when the user gave none. `invalid_argument` for what cannot be met.
Result<HostsPlan> plan_hosts(RunOptions& options, const HostList& list, const Env& env, const std::string& version,
                             const std::string& token, const std::string& secret);

AgentJob job_for(const HostsPlan& plan, const HostShare& share, const RunOptions& options, const std::string& store);

// For --dry-run: what would be started, without the secret.
std::vector<std::string> describe(const HostsPlan& plan, const RunOptions& options);

}  // namespace xoe::launch

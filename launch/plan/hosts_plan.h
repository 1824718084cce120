// The plan of a job on several hosts, made before it connects to the first of them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/env.h"
#include "launch/options/options.h"
#include "launch/plan/agent_job.h"
#include "xoe/status.h"

namespace xoe::launch {

// One host's share of a job.
struct HostShare {
  remote::Host host = {};
  remote::LaunchMethod method = remote::LaunchMethod::kSsh;
  std::vector<AgentRank> ranks = {};      // by local rank
  std::optional<std::size_t> relay = {};  // the share whose agent reaches this host; none: the launcher does
};

struct HostsPlan {
  std::vector<HostShare> shares;  // a relay stands before the hosts behind it
  std::string version;            // of this Xoe
  std::string job;
  std::string secret;
  std::string directory;
  std::string first_host;                                // by which all hosts find rank 0's
  int slots = 0;                                         // places for ranks, of which the first have one at the start
  bool slurm = false;                                    // the hosts are nodes of the allocation
  std::vector<std::pair<std::string, std::string>> env;  // for the ranks of all hosts
};

// Hosts that the user or a batch system names, or that joined.
struct HostList {
  std::vector<remote::Host> hosts;
  bool slurm = false;           // they are nodes of the allocation
  std::string agent = {};       // the batch system's command in place of ssh, as --launch-agent; empty: none
  std::string note = {};        // for the user: why they are not those of the batch system
  std::string meeting_at = {};  // they joined: where others find the first one, which is this host; empty: they did not
};

// -H, --hostfile, or what Slurm, PBS or LSF has given to the job around us; empty without any of them, in a process
// that is a rank already, and where a batch system but Slurm has given this host alone and the number of ranks is said.
Result<HostList> find_hosts(const RunOptions& options, const Env& env);

// The job is for this host alone and needs neither a Slurm step nor an agent.
bool all_here(const HostList& list);
int all_slots(const HostList& list);

// Fills in the size, xoe_path and host_timeout that the user did not give. `invalid_argument` for options that cannot
// be met.
Result<HostsPlan> plan_hosts(RunOptions& options, const HostList& list, const Env& env, const std::string& version,
                             const std::string& token, const std::string& secret);

// Of a host that comes while the job runs. Its slots follow each other.
HostShare new_share(const HostsPlan& plan, const remote::Host& host, const RunOptions& options, const Env& env,
                    int first_slot);

// How many ranks run on the host at the start.
int started_of(const HostShare& share, const RunOptions& options);

// `first`: how many of its ranks are started at once.
AgentJob job_for(const HostsPlan& plan, const HostShare& share, const RunOptions& options, const std::string& store,
                 int first);

// For --dry-run: what would be started, without the secret.
std::vector<std::string> describe(const HostsPlan& plan, const RunOptions& options);

}  // namespace xoe::launch

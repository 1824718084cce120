// What the launcher told this process: its place in the group and where the group meets.
#pragma once

#include <string>

#include "base/env.h"
#include "xoe/collective.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

struct LaunchInfo {
  Topology topology;
  std::string launcher;  // "xoe", "openmpi", "mpich", "slurm", "torchrun", or "none" for a group of one
  std::string job;     // names the group: the same on all its ranks, different for other jobs of this user on this host
  std::string store;   // "unix:@name", "tcp:address:port" or "file:folder"; empty: rank 0 serves one
  std::string secret;  // authenticates to the store; empty when the launcher gives none
  std::string meeting = {};  // "host:port" where rank 0 serves its store to other hosts; empty: not known
  std::string host = {};     // names this host among those of the job; ranks of one host have the same
  std::string group = "0";   // which of the groups that the job's ranks form one after the other
};

// Reads XOE_*, else Open MPI's, MPICH's (PMI), Slurm's or torchrun's variables, else gives a group of one.
// `invalid_argument` names the variable that is malformed, missing or contradicts another.
Result<LaunchInfo> read_launch_info(const Env& env);

}  // namespace xoe::bootstrap

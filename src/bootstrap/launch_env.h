// The launcher's description of this process: its topology and the job's rendezvous.
#pragma once

#include <string>

#include "base/env.h"
#include "xoe/collective.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

struct LaunchInfo {
  Topology topology;
  std::string launcher;  // "xoe", "openmpi", "mpich", "slurm", "torchrun", or "none" for a group of one
  std::string
      job;  // identifies the job: the same on all its ranks, different from other jobs of this user on this host
  std::string store;         // "unix:@name", "tcp:address:port" or "file:folder"; empty: rank 0 serves one
  std::string secret;        // authenticates to the store; empty when the launcher gives none
  std::string meeting = {};  // "host:port" where rank 0 serves its store to other hosts; empty: unknown
  std::string host = {};     // identifies this host: the same for all its ranks
  std::string group = "0";   // distinguishes the groups that the ranks form one after the other
};

// Reads XOE_*, else Open MPI's, MPICH's (PMI), Slurm's or torchrun's variables, else gives a group of one.
// `invalid_argument` names a variable that is malformed, missing or contradicts another one.
Result<LaunchInfo> read_launch_info(const Env& env);

}  // namespace xoe::bootstrap

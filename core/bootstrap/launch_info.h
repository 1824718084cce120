// The launcher's description of a process: its topology and the job's rendezvous.
#pragma once

#include <string>

#include "xoe/collective.h"

namespace xoe::bootstrap {

struct LaunchInfo {
  Topology topology;
  std::string launcher;  // "xoe", "openmpi", "mpich", "jsrun", "slurm", "torchrun", or "none" for a group of one
  std::string
      job;  // identifies the job: the same on all its ranks, different from other jobs of this user on this host
  std::string store;         // "unix:@name", "tcp:address:port" or "file:folder"; empty: rank 0 serves one
  std::string secret;        // authenticates to the store; empty when the launcher gives none
  std::string meeting = {};  // "host:port" where rank 0 serves its store to other hosts; empty: unknown
  std::string host = {};     // identifies this host: the same for all its ranks
  std::string group = "0";   // distinguishes the groups that the ranks form one after the other
};

}  // namespace xoe::bootstrap

// Which of several `xoe run` on several hosts this one is: from its options, and from the variables of schedulers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/env.h"
#include "launch/options/options.h"
#include "xoe/status.h"

namespace xoe::launch {

inline constexpr std::uint16_t kRendezvousPort = 29500;

struct Membership {
  int index = 0;            // this member's; 0 leads
  int count = 1;            // of members
  int least = 1;            // the job begins, and goes on, with so many
  bool elastic = false;     // they come and go
  std::string leader = {};  // member 0's host: a name or a number
  std::uint16_t port = kRendezvousPort;
  int ranks = 1;            // of each member
  std::string source = {};  // for the user: whose variables said so; empty: the options alone
  bool slurm = false;       // the members are nodes of an allocation, with a home directory in common
};

// The facts about a host that this needs; tests give their own.
struct MemberFacts {
  std::string hostname = {};
  std::string etc_hosts = {};  // the text of /etc/hosts
  int gpus = 0;                // that programs see
  int cores = 1;
};
MemberFacts read_member_facts(const Env& env);

// An option that is given comes before the environment. `invalid_argument` lists what was looked for, or names the
// variable that is missing or wrong.
Result<Membership> find_membership(const RunOptions& options, const Env& env, const MemberFacts& facts);

// "member 1 of 4, 2 ranks here; member 0 is at a-0.net, port 29500 (from PET_MASTER_ADDR, Kubeflow Trainer)"
std::string describe(const Membership& membership);

// localhost, 127.*, ::1: only processes of this host reach it.
bool is_loopback(std::string_view host);

// What the members prove to each other that they know: the file of --rendezvous-secret or XOE_RENDEZVOUS_SECRET_FILE;
// under Slurm, on a loopback address, or with XOE_SECRET or XOE_KEY_FILE the same as ranks without a launcher have.
// `invalid_argument` says how to make one.
Result<std::string> rendezvous_secret(const RendezvousOptions& options, const Env& env, const Membership& membership);

}  // namespace xoe::launch

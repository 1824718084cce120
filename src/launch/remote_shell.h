// The command that starts an agent on a host.
#pragma once

#include <string>
#include <vector>

#include "launch/options.h"

namespace xoe::launch {

enum class Way : std::uint8_t {
  kHere,    // this host: no shell between
  kSsh,     // ssh, or what --ssh-command puts in its place
  kSrun,    // a step of the Slurm allocation around us
  kCustom,  // --launch-agent
};

// Nothing but the way to the agent and its path stands in it: what the agent needs to know comes through its stdin.
// `relayed`: it runs on another host than this one, where the user's key may be missing.
std::vector<std::string> agent_command(const Host& host, Way way, const HostOptions& where, const std::string& xoe_path,
                                       bool relayed);

// "ssh", "srun" or what the user gave: for messages.
std::string way_name(Way way, const HostOptions& where);

// As one line for a shell.
std::string shell_line(const std::vector<std::string>& command);

}  // namespace xoe::launch

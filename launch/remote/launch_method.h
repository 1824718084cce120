// How the agent, `xoe agent`, is started on a host: the command that this host, or a relay, runs for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace xoe::remote {

// The user's options about other hosts. `xoe run` and `xoe doctor` have the same ones.
struct ConnectOptions {
  std::string ssh_command = {};  // a shell command in place of ssh; it may have options
  int ssh_port = 0;              // 0: what ssh's configuration says
  std::string ssh_identity_file = {};
  std::string launch_agent = {};  // a shell command that is given HOST PROGRAM ARGUMENTS..., instead of ssh
  std::string xoe_path = {};      // of xoe on the hosts
  bool search_path = false;       // where nothing is at xoe_path, take the xoe in the host's PATH
  std::chrono::nanoseconds start_timeout = std::chrono::seconds(30);
  std::chrono::nanoseconds host_timeout = std::chrono::seconds(10);  // of silence
};

enum class LaunchMethod : std::uint8_t {
  kHere,    // a child process on this host
  kSsh,     // ssh, or the user's --ssh-command
  kSrun,    // a step of the Slurm allocation around this process
  kCustom,  // the user's --launch-agent
  kJoined,  // not by this program: it connected by itself
};

// The command that starts the agent. It holds the way to the host and the agent's path; everything else, secrets above
// all, reaches the agent through its stdin. `relayed`: the command runs on another host than this one, where the
// user's key may be missing.
std::vector<std::string> agent_command(const std::string& host, LaunchMethod method, const ConnectOptions& options,
                                       bool relayed);

// "ssh", "srun" or the user's command: for messages.
std::string method_name(LaunchMethod method, const ConnectOptions& options);

}  // namespace xoe::remote

#include "launch/remote/launch_method.h"

#include <algorithm>

#include <fmt/format.h>

#include "launch/remote/shell.h"

namespace xoe::remote {
namespace {

std::int64_t whole_seconds(std::chrono::nanoseconds time) {
  return std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(time).count());
}

// ssh, or a shell that runs the user's command in its place.
std::vector<std::string> ssh_program(const ConnectOptions& options, bool relayed) {
  if (relayed && !options.ssh_identity_file.empty())
    return {"/bin/sh", "-c",
            fmt::format("[ ! -r \"$0\" ] || set -- -i \"$0\" -o IdentitiesOnly=yes \"$@\"; exec {} \"$@\"",
                        options.ssh_command.empty() ? "ssh" : options.ssh_command),
            options.ssh_identity_file};
  if (!options.ssh_command.empty()) return {"/bin/sh", "-c", "exec " + options.ssh_command + " \"$@\"", "ssh"};
  return {"ssh"};
}

// For the user's login shell there, whichever it is.
std::string agent_line(const ConnectOptions& options) {
  const std::string path = shell_word(options.xoe_path);
  if (!options.search_path) return "exec " + path + " agent";
  return "exec sh -c " + shell_word(fmt::format("[ -x {0} ] && exec {0} agent; exec xoe agent", path));
}

std::vector<std::string> ssh_arguments(const std::string& host, const ConnectOptions& options, bool relayed) {
  std::vector<std::string> command = ssh_program(options, relayed);
  const auto set = [&command](std::string option) {
    command.emplace_back("-o");
    command.push_back(std::move(option));
  };
  command.insert(command.end(), {"-T", "-x"});
  set("BatchMode=yes");
  set("ClearAllForwardings=yes");
  set(fmt::format("ConnectTimeout={}", whole_seconds(options.start_timeout)));
  // Our own keepalives notice a cut first; these let ssh itself end after one.
  set(fmt::format("ServerAliveInterval={}", whole_seconds(options.host_timeout)));
  set("ServerAliveCountMax=2");
  if (options.ssh_port != 0) command.insert(command.end(), {"-p", std::to_string(options.ssh_port)});
  if (!relayed && !options.ssh_identity_file.empty())
    command.insert(command.end(), {"-i", options.ssh_identity_file, "-o", "IdentitiesOnly=yes"});
  command.insert(command.end(), {host, agent_line(options)});
  return command;
}

}  // namespace

std::vector<std::string> agent_command(const std::string& host, LaunchMethod method, const ConnectOptions& options,
                                       bool relayed) {
  switch (method) {
    case LaunchMethod::kHere: return {options.xoe_path, "agent"};
    case LaunchMethod::kSsh: return ssh_arguments(host, options, relayed);
    case LaunchMethod::kJoined: return {};
    case LaunchMethod::kCustom:
      return {"/bin/sh", "-c", "exec " + options.launch_agent + " \"$@\"", "sh", host, options.xoe_path, "agent"};
    case LaunchMethod::kSrun:
      // One step for each node, beside whatever else runs in the allocation. Unbuffered, or srun keeps back bytes that
      // no end of line follows.
      return {"srun",         "--nodes=1",       "--ntasks=1", "--ntasks-per-node=1", "--nodelist=" + host, "--overlap",
              "--unbuffered", "--cpu-bind=none", "--mpi=none", "--export=ALL",        options.xoe_path,     "agent"};
  }
  return {};
}

std::string method_name(LaunchMethod method, const ConnectOptions& options) {
  switch (method) {
    case LaunchMethod::kHere: return "xoe agent";
    case LaunchMethod::kSsh: return options.ssh_command.empty() ? "ssh" : options.ssh_command;
    case LaunchMethod::kSrun: return "srun";
    case LaunchMethod::kCustom: return options.launch_agent;
    case LaunchMethod::kJoined: return "its xoe run";
  }
  return {};
}

}  // namespace xoe::remote

#include "launch/remote_shell.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

namespace xoe::launch {
namespace {

std::string quoted(const std::string& word) {
  static constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) {
    if (c == '\'')
      text += "'\\''";
    else
      text += c;
  }
  return text + "'";
}

std::int64_t whole_seconds(std::chrono::nanoseconds time) {
  return std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(time).count());
}

// What begins the command: ssh, or a shell that runs what stands for it.
std::vector<std::string> ssh_program(const HostOptions& where, bool relayed) {
  if (relayed && !where.ssh_identity_file.empty())
    return {"/bin/sh", "-c",
            fmt::format("[ ! -r \"$0\" ] || set -- -i \"$0\" -o IdentitiesOnly=yes \"$@\"; exec {} \"$@\"",
                        where.ssh_command.empty() ? "ssh" : where.ssh_command),
            where.ssh_identity_file};
  if (!where.ssh_command.empty()) return {"/bin/sh", "-c", "exec " + where.ssh_command + " \"$@\"", "ssh"};
  return {"ssh"};
}

std::vector<std::string> ssh_command(const Host& host, const HostOptions& where, const std::string& xoe_path,
                                     bool relayed) {
  std::vector<std::string> command = ssh_program(where, relayed);
  const auto set = [&command](std::string option) {
    command.emplace_back("-o");
    command.push_back(std::move(option));
  };
  command.insert(command.end(), {"-T", "-x"});
  set("BatchMode=yes");
  set("ClearAllForwardings=yes");
  set("LogLevel=ERROR");
  set(fmt::format("ConnectTimeout={}", whole_seconds(where.start_timeout)));
  // Our own signs of life come first; these let ssh itself end after a cut.
  set(fmt::format("ServerAliveInterval={}", whole_seconds(where.host_timeout)));
  set("ServerAliveCountMax=2");
  if (where.ssh_port != 0) command.insert(command.end(), {"-p", std::to_string(where.ssh_port)});
  if (!relayed && !where.ssh_identity_file.empty())
    command.insert(command.end(), {"-i", where.ssh_identity_file, "-o", "IdentitiesOnly=yes"});
  command.insert(command.end(), {host.name, "exec " + quoted(xoe_path) + " agent"});
  return command;
}

}  // namespace

std::vector<std::string> agent_command(const Host& host, Way way, const HostOptions& where, const std::string& xoe_path,
                                       bool relayed) {
  switch (way) {
    case Way::kHere: return {xoe_path, "agent"};
    case Way::kSsh: return ssh_command(host, where, xoe_path, relayed);
    case Way::kCustom:
      return {"/bin/sh", "-c", "exec " + where.launch_agent + " \"$@\"", "sh", host.name, xoe_path, "agent"};
    case Way::kSrun:
      // One step for each node, beside whatever else runs in the allocation. Unbuffered, or srun keeps back what has no
      // end of line.
      return {"srun",      "--nodes=1",    "--ntasks=1",      "--ntasks-per-node=1", "--nodelist=" + host.name,
              "--overlap", "--unbuffered", "--cpu-bind=none", "--mpi=none",          "--export=ALL",
              xoe_path,    "agent"};
  }
  return {};
}

std::string way_name(Way way, const HostOptions& where) {
  switch (way) {
    case Way::kHere: return "xoe agent";
    case Way::kSsh: return where.ssh_command.empty() ? "ssh" : where.ssh_command;
    case Way::kSrun: return "srun";
    case Way::kCustom: return where.launch_agent;
  }
  return {};
}

std::string shell_line(const std::vector<std::string>& command) {
  std::string line;
  for (const std::string& word : command) line.append(line.empty() ? "" : " ").append(quoted(word));
  return line;
}

}  // namespace xoe::launch

#include "launch/doctor/checks/container.h"

#include <fcntl.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/text.h"
#include "core/bootstrap/socket_address.h"
#include "launch/remote/run_in_child.h"

namespace xoe::doctor {
namespace {

using std::chrono::milliseconds;

// As the variable has it, if that is a number from 0 on.
std::optional<std::int64_t> number_of(const Env& env, std::string_view name) {
  const auto number = parse_integer(env.text(name).value_or(""));
  return number && *number >= 0 ? number : std::nullopt;
}

// The ranks of this container, whose first process is `xoe run` or is told by variables.
std::optional<std::int64_t> ranks_of(const Tree& tree, const Env& env) {
  for (const char* const variable : {"XOE_LOCAL_SIZE", "PET_NPROC_PER_NODE"})
    if (const auto number = number_of(env, variable)) return number;
  const auto words = split_text(tree.bytes("/proc/1/cmdline", 65536).value_or(""), '\0');
  if (words.size() < 2 || (words[0] != "xoe" && !words[0].ends_with("/xoe")) || words[1] != "run") return std::nullopt;
  for (std::size_t i = 2; i + 1 < words.size() && words[i] != "--"; ++i)
    if (words[i] == "-np") return parse_integer(words[i + 1]);
  return std::nullopt;
}

// "[fd00::1]:29500", "host:29500", "host" and "fd00::1" without brackets and port.
std::string host_part(const std::string& text) {
  if (text.starts_with('[')) return text.substr(1, text.find(']') - 1);
  return std::count(text.begin(), text.end(), ':') == 1 ? text.substr(0, text.find(':')) : text;
}

// The kubelet writes "10.1.2.3 train-1.workers.team.svc.cluster.local train-1" to /etc/hosts of a pod that has a
// subdomain.
std::string full_name(const Tree& tree, const std::string& host) {
  if (host.empty()) return {};
  for (const std::string& line : lines_of(tree.text("/etc/hosts").value_or("")))
    for (const std::string& word : words_of(line.substr(0, line.find('#'))))
      if (word.starts_with(host + ".")) return word;
  return {};
}

// The name of pod 0: this pod's with the last number of its first label replaced; empty: there is no number.
std::string first_pod(const std::string& name) {
  const auto end = name.find('.');
  const auto dash = name.rfind('-', end);
  if (dash == std::string::npos || !parse_integer(name.substr(dash + 1, end - dash - 1))) return {};
  return name.substr(0, dash + 1) + "0" + (end == std::string::npos ? "" : name.substr(end));
}

LeaderFacts leader_of(const Env& env, const std::string& own_name, bool indexed) {
  for (const char* const variable : {"PET_MASTER_ADDR", "JAX_COORDINATOR_ADDRESS", "LWS_LEADER_ADDRESS"})
    if (const auto value = env.text(variable)) return {.variable = variable, .host = host_part(*value)};
  if (!indexed || own_name.empty()) return {};
  return {.variable = "JOB_COMPLETION_INDEX", .host = first_pod(own_name)};
}

void read_names(const Tree& tree, const Env& env, ContainerFacts& facts) {
  for (const std::string& line : lines_of(tree.text("/etc/resolv.conf").value_or(""))) {
    const auto words = words_of(line);
    if (words.size() >= 2 && words[0] == "nameserver") facts.name_servers.push_back(words[1]);
    if (words.size() >= 2 && words[0] == "search") facts.search.assign(words.begin() + 1, words.end());
  }
  facts.full_name = full_name(tree, tree.line("/etc/hostname"));
  facts.index = number_of(env, "JOB_COMPLETION_INDEX");
  facts.host_network = tree.line("/etc/hosts").find("(host network)") != std::string::npos;
  facts.leader = leader_of(env, facts.full_name, facts.index.has_value());
}

// Resolves in a child: a name server that does not answer takes longer than the timeout.
void resolve_leader(ContainerFacts& facts, milliseconds timeout) {
  LeaderFacts& leader = facts.leader;
  const auto answer = remote::run_in_child(
      [&leader] {
        const bool ipv6 = leader.host.find(':') != std::string::npos;
        const auto found = bootstrap::SocketAddress::resolve(ipv6 ? fmt::format("tcp:[{}]:9", leader.host)
                                                                  : fmt::format("tcp:{}:9", leader.host));
        return found ? "+" + found->host() : "-" + found.error().message();
      },
      timeout);
  if (!answer)
    leader.error = answer.error().message();
  else if (answer->starts_with('+'))
    leader.address = answer->substr(1);
  else
    leader.error = answer->empty() ? "the resolver ended the process that asked it" : answer->substr(1);
}

// The options of the file system at this path: those of the last mount on the longest part of it.
std::vector<std::string> mount_options(const Tree& tree, const std::string& path) {
  std::vector<std::string> options;
  std::size_t longest = 0;
  for (const std::string& line : lines_of(tree.text("/proc/self/mounts").value_or(""))) {
    const auto words = words_of(line);
    if (words.size() < 4 || words[1].size() < longest) continue;
    const std::string& at = words[1];
    if (at != "/" && path != at && !path.starts_with(at + "/")) continue;
    longest = at.size();
    options = split_text(words[3], ',');
  }
  return options;
}

bool is_read_only(const Tree& tree, const std::string& path) {
  const auto options = mount_options(tree, path);
  return std::find(options.begin(), options.end(), "ro") != options.end();
}

bool is_writable(const Tree& tree, const std::string& path) {
  if (path.empty()) return false;
  return tree.live() ? ::access(path.c_str(), W_OK) == 0 : !is_read_only(tree, path);
}

void read_files(const Tree& tree, const Env& env, ContainerFacts& facts) {
  const auto ids = words_of(field(tree.text("/proc/self/status").value_or(""), "Uid"));
  if (!ids.empty()) facts.uid = parse_integer(ids[0]);
  for (const std::string& line : lines_of(tree.text("/etc/passwd").value_or(""))) {
    const auto parts = split_text(line, ':');
    if (parts.size() > 2 && facts.uid && parse_integer(parts[2]) == facts.uid) facts.named_user = true;
  }
  for (const char* const variable : {"LOGNAME", "USER"})
    if (env.text(variable)) facts.user_variable = variable;
  facts.read_only_root = is_read_only(tree, "/");
  facts.temporary = env.text("TMPDIR").value_or("/tmp");
  facts.temporary_writable = is_writable(tree, facts.temporary);
  facts.home = env.text("HOME").value_or("");
  facts.home_writable = is_writable(tree, facts.home);
}

// A secret is 16 to 256 bytes, without the line's end.
void read_secret(const Tree& tree, const Env& env, ContainerFacts& facts) {
  constexpr std::size_t kLeast = 16, kMost = 256;
  facts.secret = env.text("XOE_RENDEZVOUS_SECRET_FILE").value_or("");
  if (facts.secret.empty()) return;
  const auto text = tree.bytes(facts.secret, kMost + 2);
  facts.secret_read = text.has_value();
  if (!text)
    facts.secret_error = fmt::format("it cannot be read: {}", errno_text(errno));
  else if (const auto size = text->size() - (text->ends_with('\n') ? 1 : 0); size < kLeast || size > kMost)
    facts.secret_error = fmt::format("it has {} bytes; a secret has {} to {}",
                                     size > kMost ? "more" : std::to_string(size), kLeast, kMost);
}

void read_gpu_devices(const Tree& tree, const Env& env, ContainerFacts& facts) {
  const std::string wanted = env.text("NVIDIA_VISIBLE_DEVICES").value_or("");
  if (wanted != "void" && wanted != "none") facts.gpus_wanted = wanted;
  for (const std::string& name : tree.names("/dev"))
    if (name.starts_with("nvidia")) facts.gpu_devices.push_back(name);
  if (!tree.live() || !tree.has("/dev/nvidiactl")) return;
  const Fd device(::open("/dev/nvidiactl", O_RDWR | O_CLOEXEC));
  if (!device.valid()) facts.device_refused = errno_text(errno);
}

struct Call {
  const char* name;
  const char* loss;  // as in RefusedCall
  bool (*works)();
};

constexpr Call kCalls[] = {
    {"memfd_create", "", [] { return Fd(::memfd_create("xoe-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING)).valid(); }},
    {"pidfd_open", "", [] { return Fd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))).valid(); }},
    {"membarrier", "ranks that wait pay for a fence at each wake-up",
     [] { return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0; }},
    {"sched_setaffinity", "xoe run --bind-to does not work",
     [] {
       cpu_set_t cpus;
       return ::sched_getaffinity(0, sizeof cpus, &cpus) == 0 && ::sched_setaffinity(0, sizeof cpus, &cpus) == 0;
     }},
};

// Each in a process of its own: a filter may kill the process in place of refusing.
std::vector<RefusedCall> try_calls(milliseconds timeout) {
  std::vector<RefusedCall> refused;
  for (const Call& call : kCalls) {
    const auto answer =
        remote::run_in_child([&call] { return call.works() ? std::string("+") : errno_text(errno); }, timeout);
    if (!answer || *answer != "+")
      refused.push_back({.name = call.name, .error = answer ? *answer : answer.error().message(), .loss = call.loss});
  }
  return refused;
}

}  // namespace

ContainerFacts read_container(const Tree& tree, const std::string& runtime,
                              const std::vector<NetworkInterface>& interfaces, milliseconds timeout) {
  const Env env = environment_of(tree);
  ContainerFacts facts{.runtime = runtime, .tried = tree.live()};
  facts.ranks = ranks_of(tree, env);
  facts.threads = number_of(env, "OMP_NUM_THREADS");
  read_names(tree, env, facts);
  if (const NetworkInterface* const card = chosen_interface(interfaces)) {
    facts.interface = card->name;
    facts.mtu = card->mtu;
  }
  read_gpu_devices(tree, env, facts);
  read_secret(tree, env, facts);
  read_files(tree, env, facts);
  facts.filtered = field(tree.text("/proc/self/status").value_or(""), "Seccomp") == "2";
  if (!facts.tried) return facts;
  facts.refused = try_calls(timeout);
  if (!facts.leader.host.empty()) resolve_leader(facts, timeout);
  const auto is_own = [&facts](const NetworkInterface& card) {
    return std::find(card.addresses.begin(), card.addresses.end(), facts.leader.address) != card.addresses.end();
  };
  if (!facts.leader.address.empty() && std::none_of(interfaces.begin(), interfaces.end(), is_own))
    facts.path = probe_path(facts.leader.address, timeout);
  return facts;
}

}  // namespace xoe::doctor

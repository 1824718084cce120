#include "launch/rendezvous/membership.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <system_error>

#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/base/text.h"
#include "core/base/text_file.h"
#include "core/bootstrap/user_key.h"
#include "launch/plan/cores.h"
#include "launch/plan/devices.h"
#include "launch/remote/host_list.h"

namespace xoe::launch {
namespace {

constexpr std::size_t kLongestName = 253;  // of a host, as DNS has it
constexpr std::size_t kShortestSecret = 16;
constexpr std::size_t kLongestSecret = 256;
constexpr std::size_t kMostOfHostsFile = std::size_t{1} << 20;

struct Endpoint {
  std::string host = {};
  std::uint16_t port = 0;  // 0: not said
};

// "name", "name:port", "10.0.0.1:port", "fd00::1", "[fd00::1]:port".
Result<Endpoint> parse_endpoint(std::string_view text, std::string_view where) {
  Endpoint endpoint;
  std::string_view port;
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    endpoint.host = text.substr(1, close == std::string_view::npos ? close : close - 1);
    const std::string_view rest = close == std::string_view::npos ? "?" : text.substr(close + 1);
    if (!rest.empty()) port = rest.starts_with(':') && rest.size() > 1 ? rest.substr(1) : "?";
  } else if (const auto colon = text.find(':'); colon != std::string_view::npos && colon == text.rfind(':')) {
    endpoint.host = text.substr(0, colon);
    port = colon + 1 < text.size() ? text.substr(colon + 1) : "?";
  } else {
    endpoint.host = text;
  }
  const auto number = parse_integer(port);
  const bool named =
      !endpoint.host.empty() && endpoint.host.size() <= kLongestName && endpoint.host[0] != '-' &&
      std::ranges::all_of(endpoint.host, [](unsigned char c) {
        return (std::isalnum(c) != 0 && c < 128) || c == '-' || c == '.' || c == '_' || c == ':' || c == '%';
      });
  if (!named || (!port.empty() && (!number || *number < 1 || *number > 65535)))
    return failure(Code::kInvalidArgument, "{}: \"{}\" is no host such as node1, node1:29500 or [fd00::1]:29500", where,
                   text);
  if (number) endpoint.port = static_cast<std::uint16_t>(*number);
  return endpoint;
}

// How a scheduler tells each of its processes which one it is.
struct Contract {
  std::string_view name;
  const char* index;
  const char* count;    // null: it does not say
  const char* address;  // null: it follows from the host's own name
  const char* port;     // null: a default, or in the address
};

constexpr std::array kContracts{Contract{.name = "Kubeflow Trainer",
                                         .index = "PET_NODE_RANK",
                                         .count = "PET_NNODES",
                                         .address = "PET_MASTER_ADDR",
                                         .port = "PET_MASTER_PORT"},
                                Contract{.name = "JAX",
                                         .index = "JAX_PROCESS_ID",
                                         .count = "JAX_NUM_PROCESSES",
                                         .address = "JAX_COORDINATOR_ADDRESS",
                                         .port = nullptr},
                                Contract{.name = "LeaderWorkerSet",
                                         .index = "LWS_WORKER_INDEX",
                                         .count = "LWS_GROUP_SIZE",
                                         .address = "LWS_LEADER_ADDRESS",
                                         .port = nullptr},
                                Contract{.name = "Indexed Job or JobSet",
                                         .index = "JOB_COMPLETION_INDEX",
                                         .count = nullptr,
                                         .address = nullptr,
                                         .port = nullptr},
                                Contract{.name = "Slurm",
                                         .index = "SLURM_NODEID",
                                         .count = "SLURM_NNODES",
                                         .address = "SLURM_JOB_NODELIST",
                                         .port = nullptr}};
constexpr const Contract& kSlurm = kContracts.back();

const Contract* find_contract(const Env& env) {
  const auto found = std::ranges::find_if(kContracts, [&env](const Contract& contract) {
    return env.has(contract.index) && (contract.address == nullptr || env.has(contract.address));
  });
  return found == kContracts.end() ? nullptr : &*found;
}

// All that was looked for.
std::string variables_text() {
  std::string text;
  for (const Contract& contract : kContracts)
    text += fmt::format("{}{}{}{} ({})", text.empty() ? "" : ", ", contract.index,
                        contract.address == nullptr ? "" : " with ",
                        contract.address == nullptr ? "" : contract.address, contract.name);
  return text;
}

// "4", or "4:4", as torchrun has it.
Result<int> member_count(const Env& env, const char* name) {
  std::string text = env.text(name).value_or("");
  if (const auto colon = text.find(':'); colon != std::string::npos && text.substr(0, colon) == text.substr(colon + 1))
    text.resize(colon);
  const auto number = parse_integer(text);
  if (!number || *number < 1 || *number > kMostMembers)
    return failure(Code::kInvalidArgument, "environment variable {}={}: expected the number of members, 1 to {}", name,
                   env.text(name).value_or(""), kMostMembers);
  return static_cast<int>(*number);
}

// The domain of this host: pods of a headless service find theirs in /etc/hosts.
std::string domain_of(const std::string& hostname, std::string_view etc_hosts) {
  if (const auto dot = hostname.find('.'); dot != std::string::npos) return hostname.substr(dot + 1);
  const std::string prefix = hostname + '.';
  for (const std::string& line : split_text(etc_hosts, '\n')) {
    const auto words = words_of(std::string_view(line).substr(0, line.find('#')));
    for (std::size_t i = 1; i < words.size(); ++i)
      if (words[i].starts_with(prefix) && words[i].size() > prefix.size()) return words[i].substr(prefix.size());
  }
  return {};
}

// Kubernetes names the pods of an indexed job NAME-0, NAME-1, ... within the domain of their service.
Result<std::string> first_of_indexed(int index, const MemberFacts& facts) {
  const std::string first = facts.hostname.substr(0, facts.hostname.find('.'));
  const std::string ending = fmt::format("-{}", index);
  if (!first.ends_with(ending))
    return failure(Code::kInvalidArgument,
                   "--rendezvous auto: the host name {} does not end with -{}, as JOB_COMPLETION_INDEX says; say where "
                   "member 0 is with --rendezvous HOST",
                   first, index);
  const std::string domain = domain_of(facts.hostname, facts.etc_hosts);
  if (domain.empty())
    return failure(Code::kInvalidArgument,
                   "--rendezvous auto: the pod {} has no domain in which others find it; give the pods `subdomain: "
                   "SERVICE` of a headless service (a JobSet does), or say --rendezvous HOST",
                   first);
  return fmt::format("{}-0.{}", first.substr(0, first.size() - ending.size()), domain);
}

Result<Endpoint> address_by(const Contract& contract, const Env& env, int index, const MemberFacts& facts) {
  if (contract.address == nullptr) {
    XOE_ASSIGN(std::string host, first_of_indexed(index, facts));
    return Endpoint{.host = std::move(host)};
  }
  const std::string text = env.text(contract.address).value_or("");
  const std::string where = fmt::format("environment variable {}", contract.address);
  if (&contract == &kSlurm) {
    const auto nodes = remote::expand_hostlist(text);
    if (!nodes || nodes->empty())
      return failure(Code::kInvalidArgument, "{}={}: expected the nodes of the allocation", where, text);
    return Endpoint{.host = nodes->front()};
  }
  XOE_ASSIGN(Endpoint endpoint, parse_endpoint(text, where));
  if (contract.port != nullptr) {
    XOE_ASSIGN(const auto port, env.integer(contract.port, 1, 65535));
    if (port) endpoint.port = static_cast<std::uint16_t>(*port);
  }
  return endpoint;
}

Result<int> count_by(const Contract* contract, const RunOptions& options, const Env& env) {
  if (options.rendezvous.nodes > 0) return options.rendezvous.nodes;
  if (env.has("XOE_NODES")) return member_count(env, "XOE_NODES");
  if (contract == &kSlurm && !env.has(kSlurm.count) && env.has("SLURM_JOB_NUM_NODES"))
    return member_count(env, "SLURM_JOB_NUM_NODES");
  if (contract != nullptr && contract->count != nullptr) return member_count(env, contract->count);
  return failure(Code::kInvalidArgument, "{}",
                 "--rendezvous: how many members are there? Say --nodes N, or set XOE_NODES");
}

Result<int> ranks_by(const Contract* contract, const RunOptions& options, const Env& env, const MemberFacts& facts) {
  if (options.size > 0) return options.size;
  const int otherwise = std::max(1, facts.gpus);
  const auto text = env.text("PET_NPROC_PER_NODE");
  if (contract != &kContracts.front() || !text) return otherwise;
  if (*text == "auto") return facts.gpus > 0 ? facts.gpus : facts.cores;
  if (*text == "gpu") return otherwise;
  if (*text == "cpu") return facts.cores;
  const auto number = parse_integer(*text);
  if (!number || *number < 1 || *number > 4096)
    return failure(Code::kInvalidArgument,
                   "environment variable PET_NPROC_PER_NODE={}: expected a number of ranks, auto, gpu or cpu", *text);
  return static_cast<int>(*number);
}

Result<std::string> read_secret(const std::string& path) {
  const auto text = read_text_file(path);
  if (!text) return failure(Code::kInvalidArgument, "the secret of --rendezvous, {}: {}", path, text.error().message());
  const std::string secret(trimmed(*text));
  if (secret.size() < kShortestSecret || secret.size() > kLongestSecret)
    return failure(Code::kInvalidArgument,
                   "the secret of --rendezvous, {}, has {}; it must have {} to {} (openssl rand -hex 32 makes one)",
                   path, counted(static_cast<std::int64_t>(secret.size()), "byte"), kShortestSecret, kLongestSecret);
  return secret;
}

}  // namespace

MemberFacts read_member_facts(const Env& env) {
  MemberFacts facts{.hostname = remote::this_hostname(),
                    .etc_hosts = read_start("/etc/hosts", kMostOfHostsFile).value_or(""),
                    .gpus = static_cast<int>(visible_devices(env).size())};
  if (const auto cpus = allowed_cpus()) facts.cores = usable_cores(cpus->size());
  return facts;
}

Result<Membership> find_membership(const RunOptions& options, const Env& env, const MemberFacts& facts) {
  const RendezvousOptions& wanted = options.rendezvous;
  const bool from_environment = wanted.at == "auto";
  const Contract* const contract = find_contract(env);
  if (contract == nullptr && (from_environment || wanted.node_rank < 0))
    return failure(Code::kInvalidArgument,
                   "--rendezvous {}: nothing says which member this is; looked for {}; without a scheduler, say "
                   "--rendezvous HOST --node-rank I --nodes N",
                   wanted.at, variables_text());
  Membership member{.source = contract == nullptr ? "" : std::string(contract->name)};
  member.slurm = contract == &kSlurm;
  XOE_ASSIGN(member.count, count_by(contract, options, env));
  member.elastic = wanted.least_nodes > 0;
  member.least = member.elastic ? std::min(wanted.least_nodes, member.count) : member.count;
  member.index = wanted.node_rank;
  if (member.index < 0) {
    XOE_ASSIGN(const auto index, env.integer(contract->index, 0, kMostMembers - 1));
    member.index = static_cast<int>(index.value_or(0));
  }
  if (member.index >= member.count)
    return failure(Code::kInvalidArgument, "--rendezvous: this is member {}, but there are {}; the first one is 0",
                   member.index, counted(member.count, "member"));
  Endpoint at;
  if (!from_environment) {
    XOE_ASSIGN(at, parse_endpoint(wanted.at, "--rendezvous"));
  } else if (member.count > 1) {
    XOE_ASSIGN(at, address_by(*contract, env, member.index, facts));
  }
  member.leader = at.host;
  if (at.port != 0) member.port = at.port;
  XOE_ASSIGN(member.ranks, ranks_by(contract, options, env, facts));
  return member;
}

std::string describe(const Membership& member) {
  std::string text = fmt::format("member {} of {}{}, {} here", member.index,
                                 member.elastic ? fmt::format("{} to ", member.least) : std::string(), member.count,
                                 counted(member.ranks, "rank"));
  if (!member.leader.empty()) text += fmt::format("; member 0 is at {}, port {}", member.leader, member.port);
  if (!member.source.empty()) text += fmt::format(" (from {})", member.source);
  return text;
}

bool is_loopback(std::string_view host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

Result<std::string> rendezvous_secret(const RendezvousOptions& options, const Env& env, const Membership& member) {
  const std::string path =
      options.secret_file.empty() ? env.text("XOE_RENDEZVOUS_SECRET_FILE").value_or("") : options.secret_file;
  if (!path.empty()) return read_secret(path);
  if (member.slurm || is_loopback(member.leader) || env.has("XOE_SECRET") || env.has("XOE_KEY_FILE"))
    return bootstrap::job_secret(env, "rendezvous " + env.text("SLURM_JOB_ID").value_or(""));
  return failure(
      Code::kInvalidArgument, "{}",
      "--rendezvous: the members need a secret, so that no one else can join or read: openssl rand -hex 32 > "
      "FILE, give all members that file (in Kubernetes: a Secret as a volume), and name it with "
      "--rendezvous-secret or XOE_RENDEZVOUS_SECRET_FILE");
}

}  // namespace xoe::launch

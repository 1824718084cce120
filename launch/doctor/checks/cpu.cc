#include "launch/doctor/checks/host.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "core/base/text.h"

namespace xoe::doctor {
namespace {

constexpr std::string_view kCpus = "/sys/devices/system/cpu/";
constexpr std::string_view kNodes = "/sys/devices/system/node/";

void read_model(const Tree& tree, CpuFacts& facts) {
  const auto text = tree.text("/proc/cpuinfo").value_or("");
  facts.model = field(text, "model name");
  if (facts.model.empty()) facts.model = field(text, "CPU part");
  std::string flags = field(text, "flags");
  facts.architecture = flags.empty() ? "" : "x86_64";
  if (flags.empty()) {
    flags = field(text, "Features");
    if (!flags.empty()) facts.architecture = "aarch64";
  }
  for (std::string& flag : words_of(flags)) facts.flags.insert(std::move(flag));
}

std::vector<NumaNode> read_nodes(const Tree& tree) {
  std::vector<NumaNode> nodes;
  for (const std::string& name : tree.names(kNodes)) {
    const auto number = name.starts_with("node") ? parse_integer(name.substr(4)) : std::nullopt;
    if (!number) continue;
    const std::string folder = std::string(kNodes) + name;
    NumaNode node{.number = static_cast<int>(*number), .cpus = tree.line(folder + "/cpulist")};
    // "Node 0 MemTotal:       65808212 kB"
    const auto words =
        words_of(field(tree.text(folder + "/meminfo").value_or(""), "Node " + name.substr(4) + " MemTotal"));
    if (!words.empty()) node.memory = static_cast<std::uint64_t>(parse_integer(words[0]).value_or(0)) * 1024;
    nodes.push_back(std::move(node));
  }
  std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
  return nodes;
}

// The widest vectors that sums of gradients can use.
std::string vectors_of(const CpuFacts& facts) {
  const auto has = [&facts](std::string_view flag) { return facts.flags.contains(flag); };
  if (facts.architecture == "aarch64") return has("sve") ? "SVE" : "NEON";
  if (has("avx512f") && has("avx512bw") && has("avx512dq")) return "AVX-512";
  if (has("avx2") && has("fma") && has("f16c")) return "AVX2";
  return has("sse4_1") ? "SSE4" : "SSE2";
}

Finding check_vectors(const CpuFacts& facts) {
  const std::string vectors = vectors_of(facts);
  Finding finding{.id = "cpu.features",
                  .what = fmt::format("{}: {}", facts.model.empty() ? "unnamed processor" : facts.model, vectors),
                  .why = "reductions and image decoding choose their vector code by what the processor offers"};
  finding.details = {{"model", facts.model},
                     {"vectors", vectors},
                     {"float16_conversion", facts.flags.contains("f16c") || facts.flags.contains("fphp")},
                     {"bfloat16", facts.flags.contains("avx512_bf16") || facts.flags.contains("bf16")}};
  if (facts.flags.empty()) {
    finding.report(Severity::kSkipped, "/proc/cpuinfo does not say what the processor can do");
  } else if (vectors.starts_with("SSE")) {
    finding.advise(Severity::kWarning,
                   "use processors with AVX2 (Haswell, Zen and later); in a virtual machine, have the host's processor "
                   "passed on (QEMU: -cpu host; vSphere: a newer EVC mode)");
  }
  return finding;
}

Finding check_cores(const CpuFacts& facts) {
  Finding finding{
      .id = "cpu.cores",
      .what = fmt::format("{} ({}) on {}", counted(facts.cores, "core"), counted(facts.usable, "hardware thread"),
                          counted(facts.sockets, "socket")),
      .why = "each rank wants at least one core of its own; ranks that outnumber cores wait for each other"};
  finding.details = {
      {"online", facts.online}, {"usable", facts.usable}, {"cores", facts.cores}, {"sockets", facts.sockets}};
  if (facts.usable == 0) {
    finding.report(Severity::kSkipped, "the kernel does not say which processors may be used");
  } else if (facts.usable < facts.online) {
    finding.severity = Severity::kNote;
    finding.what += fmt::format("; {} of {} threads may be used", facts.usable, facts.online);
    finding.fix = "if more were meant: see taskset -p $$, the batch system's request, or docker run --cpuset-cpus";
  }
  return finding;
}

// The counts of the group that was stopped most, from this process's own to the topmost (version 2).
void read_throttling(const Tree& tree, CpuFacts& facts) {
  std::string group = field(tree.text("/proc/self/cgroup").value_or(""), "0:");
  if (group.empty()) return;
  if (group.find("..") != std::string::npos) group.clear();  // it leads out of what a container sees
  for (int depth = 0; depth < 64; ++depth) {
    while (group.ends_with('/')) group.pop_back();
    const std::string counts = tree.text("/sys/fs/cgroup" + group + "/cpu.stat").value_or("");
    const auto periods = parse_integer(field(counts, "nr_periods")).value_or(0);
    const auto throttled = parse_integer(field(counts, "nr_throttled")).value_or(0);
    if (periods > 0 && throttled > facts.throttled)
      std::tie(facts.periods, facts.throttled) = std::pair(periods, throttled);
    if (group.empty()) return;
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

Finding check_quota(const CpuFacts& facts, std::optional<double> quota) {
  Finding finding{.id = "cpu.quota",
                  .what = "no limit on processor time",
                  .why =
                      "a group that used up its time stands still until the next period, and all ranks wait for the "
                      "one that stands"};
  finding.details = {
      {"processors", json_or_null(quota)}, {"periods", facts.periods}, {"throttled_periods", facts.throttled}};
  if (!quota) return finding;
  finding.what = fmt::format("a control group limits processor time to {:.4g} processors", *quota);
  if (facts.throttled > 0)
    finding.what += fmt::format("; it stood still in {} of {} periods", facts.throttled, facts.periods);
  finding.severity = facts.usable > 0 && *quota < facts.usable ? Severity::kWarning : Severity::kNote;
  if (finding.severity == Severity::kWarning)
    finding.fix = fmt::format(
        "start at most {:.0f} ranks here, or raise the limit (docker run --cpus, Kubernetes "
        "resources.limits.cpu, systemd CPUQuota)",
        std::max(1.0, *quota));
  return finding;
}

Finding check_numa(const CpuFacts& facts) {
  Finding finding{.id = "cpu.numa",
                  .what = counted(std::ssize(facts.nodes), "memory node"),
                  .why =
                      "memory of another node is slower to reach; ranks should stay on the node of their GPU and "
                      "network card"};
  std::string without;
  Json nodes = Json::array();
  for (const NumaNode& node : facts.nodes) {
    nodes.push_back({{"node", node.number}, {"cpus", node.cpus}, {"memory", node.memory}});
    finding.table += fmt::format("node {}: CPUs {}, {}\n", node.number, node.cpus.empty() ? "none" : node.cpus,
                                 human_bytes(node.memory));
    if (node.memory == 0) without += fmt::format("{}{}", without.empty() ? "" : ", ", node.number);
  }
  finding.details = {{"nodes", std::move(nodes)}};
  if (facts.nodes.empty()) {
    finding.report(Severity::kSkipped, "the kernel shows no memory nodes");
  } else if (!without.empty()) {
    finding.severity = Severity::kWarning;
    finding.what += fmt::format("; node {} has no memory", without);
    finding.fix = "put memory modules on every socket; a socket without its own is starved by the other's";
  } else if (facts.nodes.size() > 1) {
    finding.advise(Severity::kNote, "xoe run --bind-to socket");
  } else {
    finding.table.clear();
  }
  return finding;
}

}  // namespace

CpuFacts read_cpu(const Tree& tree) {
  CpuFacts facts;
  read_model(tree, facts);
  const auto online = parse_cpu_list(tree.line(std::string(kCpus) + "online"));
  facts.online = static_cast<int>(online.size());
  auto usable = parse_cpu_list(field(tree.text("/proc/self/status").value_or(""), "Cpus_allowed_list"));
  std::erase_if(usable, [&online](int cpu) { return std::find(online.begin(), online.end(), cpu) == online.end(); });
  facts.usable = static_cast<int>(usable.size());
  std::set<std::string> cores;
  std::set<std::string> sockets;
  for (const int cpu : usable) {
    const std::string folder = fmt::format("{}cpu{}/topology/", kCpus, cpu);
    const std::string threads = tree.line(folder + "thread_siblings_list");
    cores.insert(threads.empty() ? fmt::format("{}", cpu) : threads);
    sockets.insert(tree.line(folder + "physical_package_id"));
  }
  facts.cores = static_cast<int>(cores.size());
  facts.sockets = static_cast<int>(sockets.size());
  facts.nodes = read_nodes(tree);
  read_throttling(tree, facts);
  return facts;
}

Findings check_cpu(const CpuFacts& facts, std::optional<double> quota) {
  return {check_vectors(facts), check_cores(facts), check_quota(facts, quota), check_numa(facts)};
}

}  // namespace xoe::doctor

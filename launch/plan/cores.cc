#include "launch/plan/cores.h"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>

#include "core/base/cgroup.h"
#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/base/text.h"

namespace xoe::launch {
namespace {

// The number of the link nodeN in the cpu's folder; 0 where the kernel knows no nodes.
int numa_node_of(const std::string& cpu_folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(cpu_folder, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("node")) continue;
    if (const auto number = parse_integer(std::string_view(name).substr(4))) return static_cast<int>(*number);
  }
  return 0;
}

// Cores in the order in which ranks take them: a rank's share of one socket, then one of the next.
std::vector<CpuCore> by_turns(const std::vector<CpuCore>& cores, std::size_t each) {
  std::map<int, std::vector<CpuCore>> sockets;
  for (const CpuCore& core : cores) sockets[core.socket].push_back(core);
  std::vector<CpuCore> order;
  std::vector<CpuCore> rest;
  for (std::size_t from = 0; order.size() + rest.size() < cores.size(); from += each)
    for (const auto& [socket, own] : sockets)
      for (std::size_t i = from; i < std::min(from + each, own.size()); ++i)
        (from + each <= own.size() ? order : rest).push_back(own[i]);
  order.insert(order.end(), rest.begin(), rest.end());
  return order;
}

}  // namespace

Result<std::vector<int>> parse_cpu_list(const std::string& text) {
  std::vector<int> cpus;
  for (const std::string& range : split_text(text, ',')) {
    const auto dash = range.find('-');
    const auto first = parse_integer(range.substr(0, dash));
    const auto last = dash == std::string::npos ? first : parse_integer(range.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= CPU_SETSIZE)
      return failure(Code::kInvalidArgument, "cpu list \"{}\": expected e.g. 0-3,8", text);
    for (auto cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

Result<std::vector<int>> allowed_cpus() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0)
    return failure(Code::kUnavailable, "cannot read the processors of this process: {}", errno_text(errno));
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

Result<std::vector<CpuCore>> read_cores(const std::vector<int>& allowed, const std::string& sysfs) {
  std::map<std::pair<int, int>, CpuCore> by_id;  // (socket, first cpu of the core)
  for (const int cpu : allowed) {
    const std::string folder = fmt::format("{}/cpu{}/topology/", sysfs, cpu);
    const auto siblings = read_line(folder + "thread_siblings_list");
    const auto package = read_line(folder + "physical_package_id");
    if (!siblings) return failure(Code::kUnavailable, "cannot read the cores of this host from {}", folder);
    XOE_ASSIGN(const auto threads, parse_cpu_list(*siblings));
    // Virtual machines give -1 where the socket is not known: one socket then.
    const auto socket = package ? parse_integer(*package).value_or(0) : 0;
    CpuCore& core = by_id[{static_cast<int>(socket), threads.front()}];
    core.socket = static_cast<int>(socket);
    core.numa = numa_node_of(fmt::format("{}/cpu{}", sysfs, cpu));
    core.cpus.push_back(cpu);
  }
  std::vector<CpuCore> cores;
  cores.reserve(by_id.size());
  for (auto& [id, core] : by_id) cores.push_back(std::move(core));
  return cores;
}

Result<std::vector<std::vector<int>>> share_cores(const std::vector<CpuCore>& cores, int ranks, Binding binding,
                                                  bool by_socket, int first_numa) {
  std::vector<std::vector<int>> shares(static_cast<std::size_t>(ranks));
  if (binding == Binding::kNone) return shares;
  if (binding == Binding::kCore) {
    const std::size_t each = cores.size() / shares.size();
    if (each == 0)
      return failure(Code::kResourceExhausted,
                     "--bind-to core: {} ranks but only {} cores; ask for fewer ranks or leave them unbound", ranks,
                     cores.size());
    const auto order = by_socket ? by_turns(cores, each) : cores;
    for (std::size_t i = 0; i < each * shares.size(); ++i)
      shares[i / each].insert(shares[i / each].end(), order[i].cpus.begin(), order[i].cpus.end());
    return shares;
  }
  std::map<int, std::vector<int>> by_number;
  for (const CpuCore& core : cores) {
    auto& group = by_number[binding == Binding::kSocket ? core.socket : core.numa];
    group.insert(group.end(), core.cpus.begin(), core.cpus.end());
  }
  std::vector<std::vector<int>> groups;
  std::ptrdiff_t first = 0;
  for (auto& [number, cpus] : by_number) {
    if (binding == Binding::kNuma && number == first_numa) first = std::ssize(groups);
    groups.push_back(std::move(cpus));
  }
  std::rotate(groups.begin(), groups.begin() + first, groups.end());
  for (std::size_t rank = 0; rank < shares.size(); ++rank)
    shares[rank] = groups[by_socket ? rank % groups.size() : rank * groups.size() / shares.size()];
  return shares;
}

std::string cpu_list_text(std::vector<int> cpus) {
  std::ranges::sort(cpus);
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpus[i]);
    if (end - i > 1) text += fmt::format("-{}", cpus[end - 1]);
    i = end;
  }
  return text;
}

std::vector<std::vector<int>> cpus_near(const std::vector<CpuCore>& cores, const std::vector<int>& numa_nodes) {
  std::vector<std::vector<int>> shares;
  for (const int node : numa_nodes) {
    auto& share = shares.emplace_back();
    for (const CpuCore& core : cores)
      if (core.numa == node) share.insert(share.end(), core.cpus.begin(), core.cpus.end());
    if (share.empty()) return {};
  }
  return shares;
}

int usable_cores(std::size_t allowed_cpus) {
  auto cores = static_cast<double>(allowed_cpus);
  if (read_line("/sys/devices/system/cpu/smt/active") == "1") cores /= 2;
  if (const auto quota = read_cpu_quota()) cores = std::min(cores, *quota);
  return std::max(1, static_cast<int>(cores));
}

}  // namespace xoe::launch

#include "doctor/control_groups.h"

#include <algorithm>

#include "base/text.h"

namespace xoe::doctor {
namespace {

// Version 1 writes "no limit" as the largest whole number of pages.
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

// The folders of a group, from the innermost to the topmost.
std::vector<std::string> folders(const Tree& tree, const std::string& mount, std::string group) {
  std::vector<std::string> all;
  // Seen from within a container the path may lead out of what is mounted.
  if (group.find("..") != std::string::npos || !tree.has(mount + group)) group = "/";
  for (int depth = 0; depth < 64; ++depth) {
    while (group.ends_with('/')) group.pop_back();
    all.push_back(mount + group);
    if (group.empty()) break;
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
  return all;
}

template <class T>
bool tighten(std::optional<T>& limit, std::optional<T> other) {
  if (!other || (limit && *limit <= *other)) return false;
  limit = other;
  return true;
}

std::optional<double> ratio(std::optional<double> quota, std::optional<double> period) {
  if (!quota || !period || !(*quota > 0) || !(*period > 0)) return std::nullopt;
  return *quota / *period;
}

void add_memory(const Tree& tree, const std::string& limit, const std::string& used, GroupLimits& limits) {
  const auto bytes = tree.number(limit);
  if (!bytes || *bytes < 0 || *bytes >= kNoLimit) return;
  if (!tighten(limits.memory, std::optional(static_cast<std::uint64_t>(*bytes)))) return;
  const auto taken = tree.number(used);
  limits.memory_used = taken ? std::optional(static_cast<std::uint64_t>(*taken)) : std::nullopt;
}

void add_version_2(const Tree& tree, const std::string& mount, const std::string& group, GroupLimits& limits) {
  for (const std::string& folder : folders(tree, mount, group)) {
    // "200000 100000" for 2 processors, "max 100000" for no limit.
    const auto cpu = words_of(tree.line(folder + "/cpu.max"));
    if (cpu.size() == 2) tighten(limits.processors, ratio(parse_number(cpu[0]), parse_number(cpu[1])));
    add_memory(tree, folder + "/memory.max", folder + "/memory.current", limits);
    tighten(limits.processes, tree.number(folder + "/pids.max"));
  }
}

void add_version_1(const Tree& tree, const std::string& controller, const std::string& group, GroupLimits& limits) {
  // Systems mount "cpu" alone or as "cpu,cpuacct".
  std::string mount = "/sys/fs/cgroup/" + controller;
  if (!tree.has(mount) && controller == "cpu") mount = "/sys/fs/cgroup/cpu,cpuacct";
  for (const std::string& folder : folders(tree, mount, group)) {
    if (controller == "memory")
      add_memory(tree, folder + "/memory.limit_in_bytes", folder + "/memory.usage_in_bytes", limits);
    if (controller == "cpu")
      tighten(limits.processors, ratio(parse_number(tree.line(folder + "/cpu.cfs_quota_us")),
                                       parse_number(tree.line(folder + "/cpu.cfs_period_us"))));
    if (controller == "pids") tighten(limits.processes, tree.number(folder + "/pids.max"));
  }
}

}  // namespace

GroupLimits read_group_limits(const Tree& tree) {
  GroupLimits limits;
  // Lines "5:cpu,cpuacct:/group" and, of version 2, "0::/group".
  for (const std::string& line : lines_of(tree.text("/proc/self/cgroup").value_or(""))) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      const bool hybrid = !tree.has("/sys/fs/cgroup/cgroup.controllers") && tree.has("/sys/fs/cgroup/unified");
      add_version_2(tree, hybrid ? "/sys/fs/cgroup/unified" : "/sys/fs/cgroup", group, limits);
    } else {
      for (const std::string& controller : split_text(controllers, ',')) add_version_1(tree, controller, group, limits);
    }
  }
  return limits;
}

}  // namespace xoe::doctor

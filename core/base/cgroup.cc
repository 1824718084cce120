#include "core/base/cgroup.h"

#include <unistd.h>

#include <cmath>
#include <string_view>
#include <vector>

#include "core/base/machine.h"
#include "core/base/text.h"

namespace xoe {
namespace {

// Version 1 writes "no limit" as the largest whole number of pages.
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

constexpr std::size_t kLongestList = std::size_t{1} << 20;

enum class Wanted : std::uint8_t { kCpus, kAll };

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

std::optional<std::int64_t> read_integer(const std::string& path) {
  return parse_integer(read_line(path).value_or(""));
}
std::optional<double> read_number(const std::string& path) { return parse_number(read_line(path).value_or("")); }

// The folders of a group, from the innermost to the topmost.
std::vector<std::string> folders(const std::string& mount, std::string group) {
  std::vector<std::string> all;
  // Seen from within a container the path may lead out of what is mounted.
  if (group.find("..") != std::string::npos || !exists(mount + group)) group = "/";
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

// Microseconds. The kernel takes from 1 ms, and periods of 1 s at most; the rest is no limit, but was misread.
std::optional<double> ratio(std::optional<double> quota, std::optional<double> period) {
  constexpr double kLeast = 0.001, kLongestPeriod = 1e6;
  if (!quota || !period || !(*quota > 0) || !(*period > 0) || *period > kLongestPeriod) return std::nullopt;
  const double cpus = *quota / *period;
  return cpus >= kLeast && std::isfinite(cpus) ? std::optional(cpus) : std::nullopt;
}

std::optional<std::int64_t> not_negative(std::optional<std::int64_t> number) {
  return number && *number >= 0 ? number : std::nullopt;
}

void add_memory(const std::string& limit, const std::string& used, CgroupLimits& limits) {
  const auto bytes = read_integer(limit);
  if (!bytes || *bytes < 0 || *bytes >= kNoLimit) return;
  if (!tighten(limits.memory, std::optional(static_cast<std::uint64_t>(*bytes)))) return;
  const auto taken = not_negative(read_integer(used));
  limits.memory_used = taken ? std::optional(static_cast<std::uint64_t>(*taken)) : std::nullopt;
}

void add_version_2(const std::string& mount, const std::string& group, Wanted wanted, CgroupLimits& limits) {
  for (const std::string& folder : folders(mount, group)) {
    // "200000 100000" for 2 CPUs, "max 100000" for no limit.
    const auto cpu = split_text(read_line(folder + "/cpu.max").value_or(""), ' ');
    if (cpu.size() == 2) tighten(limits.cpus, ratio(parse_number(cpu[0]), parse_number(cpu[1])));
    if (wanted == Wanted::kCpus) continue;
    add_memory(folder + "/memory.max", folder + "/memory.current", limits);
    tighten(limits.processes, not_negative(read_integer(folder + "/pids.max")));
  }
}

void add_version_1(const std::string& mounts, const std::string& controller, const std::string& group,
                   CgroupLimits& limits) {
  // Systems mount "cpu" alone or as "cpu,cpuacct".
  std::string mount = mounts + "/" + controller;
  if (!exists(mount) && controller == "cpu") mount = mounts + "/cpu,cpuacct";
  for (const std::string& folder : folders(mount, group)) {
    if (controller == "memory")
      add_memory(folder + "/memory.limit_in_bytes", folder + "/memory.usage_in_bytes", limits);
    if (controller == "cpu")
      if (const auto quota = read_number(folder + "/cpu.cfs_quota_us"); quota && *quota > 0)  // -1: none
        tighten(limits.cpus, ratio(quota, read_number(folder + "/cpu.cfs_period_us")));
    if (controller == "pids") tighten(limits.processes, not_negative(read_integer(folder + "/pids.max")));
  }
}

CgroupLimits read_limits(const std::string& root, Wanted wanted) {
  CgroupLimits limits;
  const std::string mounts = root + "/sys/fs/cgroup";
  // Lines "5:cpu,cpuacct:/group" and, of version 2, "0::/group".
  for (const std::string& line : split_text(read_start(root + "/proc/self/cgroup", kLongestList).value_or(""), '\n')) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      const bool hybrid = !exists(mounts + "/cgroup.controllers") && exists(mounts + "/unified");
      add_version_2(hybrid ? mounts + "/unified" : mounts, group, wanted, limits);
    } else {
      for (const std::string& controller : split_text(controllers, ','))
        if (controller == "cpu" || (wanted == Wanted::kAll && (controller == "memory" || controller == "pids")))
          add_version_1(mounts, controller, group, limits);
    }
  }
  return limits;
}

}  // namespace

CgroupLimits read_cgroup_limits(const std::string& root) { return read_limits(root, Wanted::kAll); }

std::optional<double> read_cpu_quota(const std::string& root) { return read_limits(root, Wanted::kCpus).cpus; }

}  // namespace xoe

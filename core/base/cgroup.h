// The limits that control groups (versions 1 and 2) set for this process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace xoe {

// The tightest limit on the way from this process's group to the topmost one that is visible; nullopt: none.
struct CgroupLimits {
  std::optional<double> cpus = {};
  std::optional<std::uint64_t> memory = {};       // bytes
  std::optional<std::uint64_t> memory_used = {};  // in the group that has that limit
  std::optional<std::int64_t> processes = {};
};

// `root` replaces "/" in tests and for recorded machines.
CgroupLimits read_cgroup_limits(const std::string& root = "");
// CgroupLimits::cpus alone: a few files, for what every rank does when it starts.
std::optional<double> read_cpu_quota(const std::string& root = "");

}  // namespace xoe

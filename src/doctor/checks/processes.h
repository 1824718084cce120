// The kernel, and what processes may do with each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/cgroup.h"
#include "doctor/facts/tree.h"
#include "doctor/report/finding.h"

namespace xoe::doctor {

struct ProcessFacts {
  std::string kernel = {};                        // "6.1.0-18-amd64"
  std::optional<std::int64_t> ptrace_scope = {};  // nullopt: no Yama
  bool seccomp = false;                           // system calls are filtered
  std::optional<std::int64_t> most_processes = {};
};

ProcessFacts read_processes(const Tree& tree);
Findings check_processes(const ProcessFacts& facts, const CgroupLimits& limits);

}  // namespace xoe::doctor

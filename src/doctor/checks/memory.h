// Memory and the limits on it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/cgroup.h"
#include "doctor/facts/tree.h"
#include "doctor/report/finding.h"

namespace xoe::doctor {

struct MemoryFacts {
  std::uint64_t total = 0;  // bytes; 0: not known
  std::uint64_t available = 0;
  std::optional<std::uint64_t> shm = {};      // size of /dev/shm; nullopt: nothing is mounted there
  std::uint64_t shm_free = 0;                 // of a live tree
  std::optional<std::uint64_t> memlock = {};  // nullopt: no limit
  std::optional<std::uint64_t> nofile = {};
  std::optional<std::uint64_t> nofile_hard = {};
  bool limits_known = false;
  std::string transparent_pages = {};  // "always", "madvise", "never"; empty: not known
  std::string shared_pages = {};       // the same for shared memory
  std::int64_t reserved_pages = 0;     // of 2 MiB, for hugetlbfs
  bool rdma = false;                   // this machine has network cards that need locked memory
};

MemoryFacts read_memory(const Tree& tree);
Findings check_memory(const MemoryFacts& facts, const CgroupLimits& limits);

}  // namespace xoe::doctor

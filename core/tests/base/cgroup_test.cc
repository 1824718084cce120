#include "core/base/cgroup.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "core/testing/scratch.h"

namespace xoe {
namespace {

void put(const Scratch& root, const std::string& name, std::string_view content) {
  std::filesystem::create_directories(std::filesystem::path(root.file(name)).parent_path());
  put_file(root.file(name), content);
}

TEST(Cgroups, TightestLimitOnTheWayUpCounts) {
  const Scratch root;
  put(root, "proc/self/cgroup", "0::/a/b\n");
  put(root, "sys/fs/cgroup/cgroup.controllers", "cpu memory");
  put(root, "sys/fs/cgroup/a/b/memory.max", "max\n");
  put(root, "sys/fs/cgroup/a/memory.max", "1073741824\n");
  put(root, "sys/fs/cgroup/a/memory.current", "4096\n");
  put(root, "sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
  put(root, "sys/fs/cgroup/a/cpu.max", "50000 100000\n");
  const CgroupLimits limits = read_cgroup_limits(root.path());
  EXPECT_EQ(limits.memory, std::uint64_t{1} << 30);
  EXPECT_EQ(limits.memory_used, 4096U);
  EXPECT_EQ(limits.cpus, 0.5);
  EXPECT_EQ(read_cpu_quota(root.path()), 0.5);
}

TEST(Cgroups, VersionOne) {
  const Scratch root;
  // As a container sees it: the path of the host, which is not mounted here.
  put(root, "proc/self/cgroup", "5:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n2:pids:/docker/abc\n");
  put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
  put(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n");
  put(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
  put(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  put(root, "sys/fs/cgroup/pids/pids.max", "64\n");
  const CgroupLimits limits = read_cgroup_limits(root.path());
  EXPECT_EQ(limits.memory, std::uint64_t{2} << 30);
  EXPECT_EQ(limits.cpus, 1.5);
  EXPECT_EQ(read_cpu_quota(root.path()), 1.5);
  EXPECT_EQ(limits.processes, 64);
}

TEST(Cgroups, NoLimits) {
  const Scratch root;
  put(root, "proc/self/cgroup", "5:memory:/\n3:cpu:/\n0::/\nnonsense\n");
  put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  put(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  const CgroupLimits limits = read_cgroup_limits(root.path());
  EXPECT_FALSE(limits.memory);
  EXPECT_FALSE(limits.cpus);
  EXPECT_FALSE(read_cpu_quota(root.path()));
}

// What a kernel, or something that plays one, says and cannot mean.
TEST(Cgroups, AbsurdValuesAreNoLimits) {
  for (const char* const absurd : {"-5\n", "nan nan\n", "inf 1\n", "1 1000000000000\n", "0 0\n", "1e400 1\n", "\n", "",
                                   "99999999999999999999999999\n", "12 34 56\n", "\xff\xfe\n"}) {
    const Scratch root;
    put(root, "proc/self/cgroup", "0::/a\n5:memory:/\n3:cpu:/\n2:pids:/\n");
    put(root, "sys/fs/cgroup/cgroup.controllers", "cpu memory pids");
    for (const char* const file :
         {"a/memory.max", "a/memory.current", "a/cpu.max", "a/pids.max", "memory/memory.limit_in_bytes",
          "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us", "pids/pids.max"})
      put(root, std::string("sys/fs/cgroup/") + file, absurd);
    const CgroupLimits limits = read_cgroup_limits(root.path());
    EXPECT_FALSE(limits.memory) << absurd;
    EXPECT_FALSE(limits.memory_used) << absurd;
    EXPECT_FALSE(limits.cpus) << absurd;
    EXPECT_FALSE(limits.processes) << absurd;
  }
}

TEST(Cgroups, AFileThatCannotBeReadIsNoLimit) {
  const Scratch root;
  put(root, "proc/self/cgroup", "0::/a\n");
  put(root, "sys/fs/cgroup/cgroup.controllers", "memory");
  std::filesystem::create_directories(root.file("sys/fs/cgroup/a/memory.max"));  // EISDIR
  EXPECT_FALSE(read_cgroup_limits(root.path()).memory);
}

}  // namespace
}  // namespace xoe

#include "base/cgroup.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "scratch.h"

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

}  // namespace
}  // namespace xoe

// Ranks near their GPU or their host's network interface, on recorded machines.
#include "launch/plan/binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>

#include "core/testing/scratch.h"
#include "launch/plan/job_plan.h"
#include "launch/plan/locality.h"

namespace xoe::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Shares = std::vector<std::vector<int>>;
using Values = std::map<std::string, std::string, std::less<>>;

// Eight cores, two near each of four memories, of which two are on each socket.
class FourMemories : public testing::Test {
 protected:
  FourMemories() {
    facts_.allowed_cpus.resize(8);
    std::iota(facts_.allowed_cpus.begin(), facts_.allowed_cpus.end(), 0);
    facts_.sysfs = scratch_.path() + "/cpu";
    facts_.net = scratch_.path() + "/net";
    facts_.gpus = {.gpus = scratch_.path() + "/gpus", .pci = scratch_.path() + "/pci"};
    for (int cpu = 0; cpu < 8; ++cpu) {
      const std::string folder = facts_.sysfs + "/cpu" + std::to_string(cpu);
      write(folder + "/topology/thread_siblings_list", std::to_string(cpu));
      write(folder + "/topology/physical_package_id", std::to_string(cpu / 4));
      std::filesystem::create_directories(folder + "/node" + std::to_string(cpu / 2));
    }
  }

  static void write(const std::filesystem::path& file, const std::string& line) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << line << '\n';
  }

  // An interface of a PCI device near this memory.
  void add_nic(const std::string& name, int node) {
    write(facts_.gpus.pci + "/" + name + "/numa_node", std::to_string(node));
    link(facts_.gpus.pci + "/" + name, name);
  }
  void link(const std::string& device, const std::string& name) {
    std::filesystem::create_directories(facts_.net + "/" + name);
    std::filesystem::create_directory_symlink(device, facts_.net + "/" + name + "/device");
  }
  void put_upon(const std::string& upper, const std::string& lower) {
    std::filesystem::create_directories(facts_.net + "/" + upper);
    std::filesystem::create_directory_symlink("../" + lower, facts_.net + "/" + upper + "/lower_" + lower);
  }

  Shares shares(std::size_t ranks, bool by_socket = false, Binding binding = Binding::kNuma) const {
    return bind_ranks(binding, by_socket, ranks, Env(), facts_).value().cpus;
  }

  Scratch scratch_;
  HostFacts facts_;
};

TEST_F(FourMemories, TheFirstRankIsNearTheInterface) {
  add_nic("eth0", 2);
  facts_.interface = "eth0";
  EXPECT_EQ(shares(1), (Shares{{4, 5}}));
  // The others are not crowded there: blocks over all memories as ever, on another socket where there are two.
  EXPECT_EQ(shares(2), (Shares{{4, 5}, {0, 1}}));
  EXPECT_EQ(shares(4), (Shares{{4, 5}, {6, 7}, {0, 1}, {2, 3}}));
  EXPECT_EQ(shares(4, true), (Shares{{4, 5}, {6, 7}, {0, 1}, {2, 3}}));
  EXPECT_EQ(bind_ranks(Binding::kNuma, false, 1, Env(), facts_).value().locality,
            "from NUMA node 2 on, which eth0 is near");
}

TEST_F(FourMemories, WhereItIsNotKnownTheFirstMemoryIsFirst) {
  add_nic("eth0", -1);
  add_nic("eth1", 7);
  std::filesystem::create_directories(facts_.net + "/veth0");
  for (const char* name : {"", "eth0", "eth1", "veth0", "none", "../net/eth0"}) {
    facts_.interface = name;
    EXPECT_EQ(shares(2), (Shares{{0, 1}, {4, 5}})) << name;
    EXPECT_THAT(bind_ranks(Binding::kNuma, false, 2, Env(), facts_).value().locality, IsEmpty()) << name;
  }
}

TEST_F(FourMemories, MemoriesWithoutCpusOfOursDoNotCount) {
  add_nic("eth0", 2);
  facts_.interface = "eth0";
  facts_.allowed_cpus = {0, 1, 2, 3};
  EXPECT_EQ(shares(1), (Shares{{0, 1}}));
}

TEST_F(FourMemories, OtherBindingsDoNotMind) {
  add_nic("eth0", 2);
  facts_.interface = "eth0";
  EXPECT_EQ(shares(1, false, Binding::kSocket), (Shares{{0, 1, 2, 3}}));
  EXPECT_EQ(shares(4, false, Binding::kCore), (Shares{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(shares(2, false, Binding::kNone), (Shares{{}, {}}));
}

TEST_F(FourMemories, AGpuComesFirst) {
  add_nic("eth0", 2);
  facts_.interface = "eth0";
  std::filesystem::create_directories(facts_.gpus.gpus + "/0000:3b:00.0");
  write(facts_.gpus.pci + "/0000:3b:00.0/numa_node", "1");
  EXPECT_EQ(shares(1), (Shares{{2, 3}}));
  EXPECT_EQ(bind_ranks(Binding::kNuma, false, 1, Env(), facts_).value().locality, "each near its GPU");
  EXPECT_EQ(shares(2), (Shares{{4, 5}, {0, 1}})) << "fewer GPUs than ranks";
}

TEST_F(FourMemories, InterfacesUponOthers) {
  add_nic("eth0", 3);
  add_nic("eth1", 3);
  add_nic("eth2", 1);
  put_upon("bond0", "eth0");
  put_upon("bond0", "eth1");
  put_upon("bond0.100", "bond0");
  put_upon("bond1", "eth0");
  put_upon("bond1", "eth2");
  put_upon("loop0", "loop0");
  EXPECT_EQ(numa_node_of_interface("bond0", facts_.net), 3);
  EXPECT_EQ(numa_node_of_interface("bond0.100", facts_.net), 3);
  EXPECT_EQ(numa_node_of_interface("bond1", facts_.net), -1) << "near two";
  EXPECT_EQ(numa_node_of_interface("loop0", facts_.net), -1);
}

TEST_F(FourMemories, AVirtioDeviceIsWhereItsPciDeviceIs) {
  write(facts_.gpus.pci + "/0000:00:03.0/numa_node", "1");
  std::filesystem::create_directories(facts_.gpus.pci + "/0000:00:03.0/virtio0");
  link(facts_.gpus.pci + "/0000:00:03.0/virtio0", "eth0");
  EXPECT_EQ(numa_node_of_interface("eth0", facts_.net), 1);
}

TEST_F(FourMemories, OfAHostInAJob) {
  add_nic("ib0", 1);
  facts_.interface = "ib0";
  const AgentJob job{.host = "a", .ranks = {{.rank = 4}, {.rank = 5}}, .size = 6, .binding = Binding::kNuma};
  const JobPlan plan = plan_host(job, Env(), facts_, "/bin/prog").value();
  EXPECT_THAT(plan.ranks[0].cpus, ElementsAre(2, 3));
  EXPECT_THAT(plan.ranks[1].cpus, ElementsAre(6, 7));
  EXPECT_THAT(plan.locality, HasSubstr("ib0"));
}

TEST_F(FourMemories, AHostTellsWhatTorchrunTells) {
  const AgentJob job{.host = "b",
                     .first_host = "a",
                     .ranks = {{.rank = 4, .cross_rank = 2, .cross_size = 3}, {.rank = 5, .cross_size = 1}},
                     .size = 6};
  const JobPlan plan = plan_host(job, Env(), facts_, "/bin/prog").value();
  for (const char* variable :
       {"RANK=5", "WORLD_SIZE=6", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=2", "MASTER_ADDR=a"})
    EXPECT_THAT(plan.ranks[1].environment, ::testing::Contains(variable));
}

TEST_F(FourMemories, OnOneHostRanksAreNearTheirGpus) {
  int node = 3;
  for (const char* pci : {"0000:3b:00.0", "0000:af:00.0"}) {
    std::filesystem::create_directories(facts_.gpus.gpus + "/" + pci);
    write(facts_.gpus.pci + "/" + pci + "/numa_node", std::to_string(node--));
  }
  RunOptions options;
  options.size = 2;
  options.binding = Binding::kNuma;
  const JobPlan plan = plan_job(options, Env(), facts_, "/bin/prog", "token", "secret").value();
  EXPECT_THAT(plan.ranks[0].cpus, ElementsAre(6, 7));
  EXPECT_THAT(plan.ranks[1].cpus, ElementsAre(4, 5));
}

}  // namespace
}  // namespace xoe::launch

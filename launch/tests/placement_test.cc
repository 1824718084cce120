// The ranks of each host, and their GPUs.
#include "launch/remote/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "core/testing/scratch.h"
#include "launch/plan/binding.h"
#include "launch/plan/hosts_plan.h"
#include "launch/plan/job_plan.h"
#include "launch/plan/placement.h"

namespace xoe::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

remote::Host host(std::string name, int slots, int most = 0) {
  return {.name = std::move(name), .slots = slots, .max_slots = most};
}

std::vector<std::vector<int>> placed(const std::vector<remote::Host>& hosts, int size, MapBy by, bool over = false) {
  std::vector<std::vector<int>> ranks;
  const auto result = place_ranks(hosts, size, by, over);
  EXPECT_TRUE(result) << result.error().message();
  for (const auto& one : result.value()) {
    auto& list = ranks.emplace_back();
    for (const AgentRank& rank : one) list.push_back(rank.rank);
  }
  return ranks;
}

TEST(Placement, SlotsThenTurns) {
  const std::vector<remote::Host> two{host("a", 2), host("b", 3)};
  EXPECT_THAT(placed(two, 4, MapBy::kSlot), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(placed(two, 5, MapBy::kNode), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3, 4)));
  EXPECT_THAT(placed(two, 1, MapBy::kSlot), ElementsAre(ElementsAre(0), ElementsAre()));
  EXPECT_THAT(placed(two, 8, MapBy::kSlot, true), ElementsAre(ElementsAre(0, 1, 5, 6), ElementsAre(2, 3, 4, 7)));
  EXPECT_THAT(placed({host("a", 1, 2), host("b", 1)}, 5, MapBy::kSlot, true),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3, 4)));
}

TEST(Placement, EveryRankOnceForEveryShape) {
  for (const MapBy by : {MapBy::kSlot, MapBy::kNode, MapBy::kSocket})
    for (int hosts = 1; hosts <= 5; ++hosts)
      for (int size = 1; size <= 20; ++size) {
        std::vector<remote::Host> list;
        for (int i = 0; i < hosts; ++i) list.push_back(host("h" + std::to_string(i), 1 + i % 3));
        const auto result = place_ranks(list, size, by, true).value();
        std::vector<int> seen(static_cast<std::size_t>(size));
        for (const auto& ranks : result)
          for (std::size_t local = 0; local < ranks.size(); ++local) {
            ++seen[static_cast<std::size_t>(ranks[local].rank)];
            const auto across = std::ranges::count_if(result, [&](const auto& one) { return one.size() > local; });
            EXPECT_EQ(ranks[local].cross_size, across);
            EXPECT_LT(ranks[local].cross_rank, across);
          }
        EXPECT_THAT(seen, testing::Each(1));
      }
}

TEST(Placement, RefusesWhatDoesNotFit) {
  const auto refused = place_ranks({host("a", 2)}, 3, MapBy::kSlot, false);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("-np 3: the hosts have 2 slots"));
  EXPECT_FALSE(place_ranks({host("a", 1, 2)}, 3, MapBy::kSlot, true));
  EXPECT_FALSE(place_ranks({host("a", kMaxRanksPerHost + 1)}, 1, MapBy::kSlot, false));
}

using Values = std::map<std::string, std::string, std::less<>>;

TEST(FindHosts, TheSlurmAllocationAroundUs) {
  const Values allocation{{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_TASKS_PER_NODE", "2(x2)"}, {"SLURM_JOB_ID", "5"}};
  const auto list = find_hosts(RunOptions(), Env(allocation)).value();
  EXPECT_TRUE(list.slurm);
  EXPECT_THAT(list.hosts, ElementsAre(host("n1", 2), host("n2", 2)));
  Values step = allocation;
  step.insert({{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}});
  EXPECT_TRUE(find_hosts(RunOptions(), Env(step)).value().hosts.empty());
  RunOptions named;
  named.where.hosts = {host("x", 1)};
  EXPECT_FALSE(find_hosts(named, Env(allocation)).value().slurm);
  Values odd = allocation;
  odd["SLURM_TASKS_PER_NODE"] = "2(x3)";
  EXPECT_THAT(find_hosts(RunOptions(), Env(odd)).error().message(), HasSubstr("SLURM_TASKS_PER_NODE=2(x3)"));
}

TEST(FindHosts, WhatPbsAndLsfHaveGivenToTheJob) {
  const Scratch scratch;
  const std::string nodes = scratch.file("nodes"), agent = scratch.file("blaunch");
  std::ofstream(nodes) << "n1\nn1\nn2\n";
  std::ofstream(agent) << "#!/bin/sh\n";
  std::filesystem::permissions(agent, std::filesystem::perms::owner_all);
  const Values pbs{{"PBS_JOBID", "5"}, {"PBS_NODEFILE", nodes}, {"PATH", scratch.path()}};
  const auto list = find_hosts(RunOptions(), Env(pbs)).value();
  EXPECT_THAT(list.hosts, ElementsAre(host("n1", 2), host("n2", 1)));
  EXPECT_EQ(list.agent, "");
  Values lsf{{"LSB_JOBID", "5"}, {"LSB_DJOB_HOSTFILE", nodes}, {"PATH", scratch.path()}};
  EXPECT_EQ(find_hosts(RunOptions(), Env(lsf)).value().agent, "blaunch");
  lsf["PATH"] = "/nowhere";
  EXPECT_EQ(find_hosts(RunOptions(), Env(lsf)).value().agent, "");
  Values rank = pbs;
  rank["XOE_RANK"] = "0";
  EXPECT_TRUE(find_hosts(RunOptions(), Env(rank)).value().hosts.empty());
  Values file_alone = pbs;
  file_alone.erase("PBS_JOBID");
  EXPECT_TRUE(find_hosts(RunOptions(), Env(file_alone)).value().hosts.empty());
  RunOptions named;
  named.where.hosts = {host("x", 1)};
  EXPECT_THAT(find_hosts(named, Env(pbs)).value().hosts, ElementsAre(host("x", 1)));
  // A job on this host alone may have more ranks than the batch system counted slots.
  std::ofstream(nodes) << "localhost\n";
  RunOptions four;
  four.size = 4;
  EXPECT_TRUE(find_hosts(four, Env(pbs)).value().hosts.empty());
  EXPECT_THAT(find_hosts(RunOptions(), Env(pbs)).value().hosts, ElementsAre(host("localhost", 1)));
  std::ofstream(nodes) << "n1\nn2\n";
  RunOptions devices;
  devices.devices = {"0", "1"};
  EXPECT_TRUE(find_hosts(devices, Env(pbs)).value().hosts.empty());
  std::filesystem::remove(nodes);
  EXPECT_THAT(find_hosts(RunOptions(), Env(pbs)).error().message(), HasSubstr("PBS_NODEFILE"));
  EXPECT_THAT(find_hosts(four, Env(pbs)).value().note, HasSubstr("run on this host"));
}

TEST(ShareDevices, OneForEachRankWhereThereAreEnough) {
  EXPECT_THAT(share_devices(Env(Values{{"CUDA_VISIBLE_DEVICES", "2,GPU-77,5"}}), 2), ElementsAre("2", "GPU-77"));
  EXPECT_TRUE(share_devices(Env(Values{{"CUDA_VISIBLE_DEVICES", "0"}}), 2).empty());
  EXPECT_TRUE(share_devices(Env(), 2).empty());
}

// A recorded machine: two GPUs near memory 1, one near memory 0.
TEST(Gpus, RanksAreBoundNearTheirs) {
  const Scratch scratch;
  const GpuFiles files{.gpus = scratch.file("gpus"), .pci = scratch.file("pci")};
  int i = 0;
  for (const auto& [pci, node] : {std::pair("0000:3b:00.0", 1), {"0000:af:00.0", 0}, {"0000:5e:00.0", 1}}) {
    std::filesystem::create_directories(files.gpus + "/" + pci);
    std::filesystem::create_directories(files.pci + "/" + pci);
    std::ofstream(files.gpus + "/" + pci + "/information")
        << "Model: \t\t Tesla\nGPU UUID: \t GPU-" << i++ << "abc\nBus Type: PCIe\n";
    std::ofstream(files.pci + "/" + pci + "/numa_node") << node << '\n';
  }
  const auto gpus = read_gpus(files);
  ASSERT_EQ(gpus.size(), 3U);
  EXPECT_EQ(gpus[1].pci, "0000:5e:00.0");
  EXPECT_EQ(gpus[1].uuid, "GPU-2abc");
  EXPECT_THAT(numa_nodes_of({"2", "GPU-0", "1"}, gpus), ElementsAre(0, 1, 1));
  EXPECT_TRUE(numa_nodes_of({"3"}, gpus).empty());
  EXPECT_TRUE(numa_nodes_of({"GPU-9"}, gpus).empty());
  const std::vector<CpuCore> cores{{.cpus = {0, 4}, .socket = 0, .numa = 0}, {.cpus = {1, 5}, .socket = 1, .numa = 1}};
  EXPECT_THAT(cpus_near_gpus(Env(), 3, cores, files),
              ElementsAre(ElementsAre(1, 5), ElementsAre(1, 5), ElementsAre(0, 4)));
  EXPECT_THAT(cpus_near_gpus(Env(Values{{"CUDA_VISIBLE_DEVICES", "2,0"}}), 2, cores, files),
              ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5)));
  EXPECT_TRUE(cpus_near_gpus(Env(), 4, cores, files).empty()) << "more ranks than GPUs";
  EXPECT_TRUE(cpus_near_gpus(Env(), 1, {cores[0]}, files).empty()) << "no core of ours is near it";
}

}  // namespace
}  // namespace xoe::launch

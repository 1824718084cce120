#include "launch/plan/job_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "launch/plan/hosts_plan.h"

namespace xoe::launch {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

RunOptions options_for(int size) {
  RunOptions options;
  options.size = size;
  options.command = {"prog", "arg"};
  return options;
}

HostFacts host_with(int cores) {
  HostFacts host;
  for (int i = 0; i < cores; ++i) host.allowed_cpus.push_back(i);
  host.usable_cores = cores;
  return host;
}

Result<JobPlan> plan(const RunOptions& options, const Env& env = Env(), int cores = 8) {
  return plan_job(options, env, host_with(cores), "/bin/prog", "token", "secret");
}

TEST(Plan, TellsRanksTheirPlace) {
  const auto job = plan(options_for(3), Env({{"HOME", "/h"}, {"XOE_RANK", "77"}, {"XOE_SECRET", "old"}})).value();
  ASSERT_EQ(job.ranks.size(), 3U);
  const auto& environment = job.ranks[2].environment;
  for (const char* variable : {"XOE_RANK=2", "XOE_SIZE=3", "XOE_LOCAL_RANK=2", "XOE_LOCAL_SIZE=3", "XOE_CROSS_RANK=0",
                               "XOE_CROSS_SIZE=1", "XOE_JOB=token", "XOE_SECRET=secret", "HOME=/h"})
    EXPECT_THAT(environment, Contains(variable));
  EXPECT_THAT(environment, Not(Contains("XOE_RANK=77")));
  EXPECT_THAT(environment, Contains("XOE_STORE=" + job.store));
  EXPECT_TRUE(job.store.starts_with("unix:@xoe-"));
  EXPECT_TRUE(job.store.ends_with("token"));
  EXPECT_THAT(job.arguments, testing::ElementsAre("prog", "arg"));
}

TEST(Plan, TellsWhatTorchrunTells) {
  const auto job = plan(options_for(3), Env({{"RANK", "77"}, {"MASTER_PORT", "4711"}})).value();
  const auto& environment = job.ranks[2].environment;
  for (const char* variable : {"RANK=2", "WORLD_SIZE=3", "LOCAL_RANK=2", "LOCAL_WORLD_SIZE=3", "GROUP_RANK=0",
                               "MASTER_ADDR=127.0.0.1", "MASTER_PORT=4711", "TORCHELASTIC_RUN_ID=token"})
    EXPECT_THAT(environment, Contains(variable));
}

TEST(Plan, TellsJaxWhatItReadsWhereTheUserWantsIt) {
  EXPECT_THAT(plan(options_for(2)).value().ranks[1].environment, Not(Contains("OMPI_COMM_WORLD_RANK=1")));
  RunOptions options = options_for(2);
  options.env = {{"XOE_JAX", "1"}, {"MPITRAMPOLINE_LIB", "/of/the/user.so"}};
  const auto environment = plan(options).value().ranks[1].environment;
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_LOCAL_RANK=1",
                               "JAX_CPU_COLLECTIVES_IMPLEMENTATION=mpi", "MPITRAMPOLINE_LIB=/of/the/user.so"})
    EXPECT_THAT(environment, Contains(variable));
  // JAX makes its coordinator's port from a number of the job, a multiple of 4096.
  const auto uri =
      std::ranges::find_if(environment, [](const auto& one) { return one.starts_with("OMPI_MCA_orte_hnp_uri="); });
  ASSERT_NE(uri, environment.end());
  EXPECT_EQ(std::stoll(uri->substr(uri->find('=') + 1)) % 4096, 0);
  EXPECT_TRUE(uri->ends_with(".0;tcp://127.0.0.1:0"));
}

TEST(Plan, ThreadsFillTheHostOnce) {
  EXPECT_THAT(plan(options_for(3)).value().ranks[0].environment, Contains("OMP_NUM_THREADS=2"));
  EXPECT_THAT(plan(options_for(8), Env(), 2).value().ranks[0].environment, Contains("OMP_NUM_THREADS=1"));
  EXPECT_THAT(plan(options_for(2), Env(std::map<std::string, std::string, std::less<>>{{"OMP_NUM_THREADS", "5"}}))
                  .value()
                  .ranks[0]
                  .environment,
              Contains("OMP_NUM_THREADS=5"));
  RunOptions options = options_for(2);
  options.env = {{"OMP_NUM_THREADS", "3"}};
  EXPECT_THAT(plan(options).value().ranks[0].environment, Contains("OMP_NUM_THREADS=3"));
}

TEST(Plan, RanksHearOfATerminalOnlyFromTheirOwnLauncher) {
  RunOptions options = options_for(2);
  const Env outer(std::map<std::string, std::string, std::less<>>{{"XOE_TERMINAL", "1"}});
  EXPECT_THAT(plan(options, outer).value().ranks[0].environment, Not(Contains("XOE_TERMINAL=1")));
  options.terminal = true;
  EXPECT_THAT(plan(options).value().ranks[0].environment, Contains("XOE_TERMINAL=1"));
}

TEST(Plan, BoundsTheRanks) {
  EXPECT_TRUE(plan(options_for(kMaxRanksPerHost)));
  for (const int size : {0, -1, kMaxRanksPerHost + 1, 100000}) {
    const auto refused = plan(options_for(size));
    ASSERT_FALSE(refused) << size;
    EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(refused.error().message(), HasSubstr(std::to_string(size)));
  }
}

TEST(Plan, KeepsItsOwnVariables) {
  RunOptions options = options_for(2);
  options.env = {{"XOE_SIZE", "9"}};
  EXPECT_FALSE(plan(options));
  options.env = {{"XOE_TIMEOUT", "9"}};
  EXPECT_THAT(plan(options).value().ranks[1].environment, Contains("XOE_TIMEOUT=9"));
}

// Each rank of each host sees its own GPU.
TEST(Plan, DevicesGoToTheRanksOfSeveralHosts) {
  RunOptions options = options_for(3);
  options.devices = {"GPU-a", "MIG-b", "GPU-c"};
  const HostList list{.hosts = {{.name = "one", .slots = 2}, {.name = "two", .slots = 1}}};
  const auto hosts = plan_hosts(options, list, Env(), "1", "token", "secret");
  ASSERT_TRUE(hosts) << hosts.error().message();
  ASSERT_EQ(hosts->shares.size(), 2U);
  std::vector<std::string> seen;
  for (const HostShare& share : hosts->shares) {
    const auto job = decode_job(encode(job_for(*hosts, share, options, "tcp:127.0.0.1:1", 1)));
    const Env inherited(std::map<std::string, std::string, std::less<>>{{"CUDA_VISIBLE_DEVICES", "7,8"}});
    const auto here = plan_host(*job, agent_env(*job, inherited), {.allowed_cpus = {0}}, "/bin/prog");
    ASSERT_TRUE(here) << here.error().message();
    for (const RankPlan& rank : here->ranks)
      for (const std::string& variable : rank.environment)
        if (variable.starts_with("CUDA_VISIBLE_DEVICES=")) seen.push_back(variable.substr(variable.find('=') + 1));
  }
  EXPECT_THAT(seen, ElementsAre("GPU-a", "MIG-b", "GPU-c"));
  options.devices.pop_back();
  EXPECT_THAT(plan_hosts(options, list, Env(), "1", "token", "secret").error().message(),
              HasSubstr("--devices: there are 2 for 3 ranks"));
}

// As on several hosts.
TEST(Plan, OptionsOfTheirOwnWinOverVariables) {
  RunOptions options = options_for(2);
  options.env = {{"XOE_BACKEND", "gloo"}, {"XOE_INTERFACE", "eth7"}};
  options.backend = "shm";
  options.where.network_interface = "lo";
  const auto ranks = plan(options).value().ranks;
  EXPECT_THAT(ranks[0].environment, Contains("XOE_BACKEND=shm"));
  EXPECT_THAT(ranks[1].environment, Contains("XOE_INTERFACE=lo"));
}

}  // namespace
}  // namespace xoe::launch

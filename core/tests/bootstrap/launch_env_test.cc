// What each launcher's variables mean, and which are refused.
#include "core/bootstrap/launch_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/machine.h"

namespace xoe::bootstrap {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

struct Case {
  std::string name;
  Variables variables;
  std::string launcher;
  Topology at;
};

std::string text_of(const Topology& at) {
  return std::to_string(at.rank) + "/" + std::to_string(at.size) + " local " + std::to_string(at.local_rank) + "/" +
         std::to_string(at.local_size) + " cross " + std::to_string(at.cross_rank) + "/" +
         std::to_string(at.cross_size);
}

const Variables kXoe{{"XOE_RANK", "1"},       {"XOE_SIZE", "2"},        {"XOE_LOCAL_RANK", "1"},
                     {"XOE_LOCAL_SIZE", "2"}, {"XOE_CROSS_RANK", "0"},  {"XOE_CROSS_SIZE", "1"},
                     {"XOE_JOB", "j"},        {"XOE_STORE", "unix:@s"}, {"XOE_SECRET", "x"}};
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"PMIX_NAMESPACE", "1146617857"},
                         {"PMIX_SERVER_URI2", "1146617856.0;tcp4://127.0.0.1:58849"},
                         {"PMIX_RANK", "1"}};
const Variables kSlurm{
    {"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "5"},  {"SLURM_LOCALID", "1"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
    {"SLURM_NODEID", "1"}, {"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "0"}};
const Variables kTorchrun{{"RANK", "3"},
                          {"WORLD_SIZE", "4"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"GROUP_RANK", "1"},
                          {"MASTER_ADDR", "127.0.0.1"},
                          {"MASTER_PORT", "29500"},
                          {"TORCHELASTIC_RUN_ID", "none"},
                          {"TORCHELASTIC_RESTART_COUNT", "0"}};
const Variables kJsrun{{"JSM_NAMESPACE_RANK", "3"},
                       {"JSM_NAMESPACE_SIZE", "4"},
                       {"JSM_NAMESPACE_LOCAL_RANK", "1"},
                       {"JSM_NAMESPACE_LOCAL_SIZE", "2"},
                       {"LSB_JOBID", "77"}};
const Variables kMpich{
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}, {"PMI_FD", "6"}};

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

class Understood : public testing::TestWithParam<Case> {};

TEST_P(Understood, Gives) {
  const auto info = read_launch_info(Env(GetParam().variables));
  ASSERT_TRUE(info) << info.error().to_string();
  EXPECT_EQ(info->launcher, GetParam().launcher);
  EXPECT_EQ(text_of(info->topology), text_of(GetParam().at));
  EXPECT_FALSE(info->job.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Launchers, Understood,
    testing::Values(
        Case{"NoLauncher", {}, "none", {0, 1, 0, 1, 0, 1}}, Case{"Xoe", kXoe, "xoe", {1, 2, 1, 2, 0, 1}},
        Case{"XoeShort", {{"XOE_RANK", "2"}, {"XOE_SIZE", "3"}, {"XOE_JOB", "j"}}, "xoe", {2, 3, 2, 3, 0, 1}},
        Case{"OpenMpi", kOpenMpi, "openmpi", {1, 2, 1, 2, 0, 1}},
        Case{"OpenMpiTwoHosts",
             with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}}),
             "openmpi",
             {3, 4, 1, 2, 1, 2}},
        Case{"OpenMpiNumbersByBinding",
             with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "4"},
                             {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}),
             "openmpi",
             {1, 4, 1, 4, 0, 1}},
        Case{"Slurm", kSlurm, "slurm", {3, 5, 1, 2, 1, 2}},
        Case{"SlurmLastNode",
             with(kSlurm, {{"SLURM_PROCID", "4"}, {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "2"}}),
             "slurm",
             {4, 5, 0, 1, 2, 3}},
        Case{"SlurmOneNode", without(kSlurm, "SLURM_STEP_TASKS_PER_NODE"), "slurm", {3, 5, 1, 5, 0, 1}},
        Case{"SlurmBatchShell", without(kSlurm, "SLURM_STEP_ID"), "none", {0, 1, 0, 1, 0, 1}},
        Case{"SlurmInteractiveShell", with(kSlurm, {{"SLURM_STEP_ID", "4294967290"}}), "none", {0, 1, 0, 1, 0, 1}},
        Case{"SlurmWithItsPmi", with(kSlurm, {{"PMI_RANK", "3"}, {"PMI_SIZE", "5"}}), "slurm", {3, 5, 1, 2, 1, 2}},
        Case{"Jsrun", kJsrun, "jsrun", {3, 4, 1, 2, 1, 2}},
        Case{"JsrunWithSpectrumMpi", with(kOpenMpi, kJsrun), "openmpi", {1, 2, 1, 2, 0, 1}},
        Case{"Mpich", kMpich, "mpich", {1, 2, 1, 2, 0, 1}}, Case{"Torchrun", kTorchrun, "torchrun", {3, 4, 1, 2, 1, 2}},
        Case{"TorchByHand",
             {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "1"}},
             "torchrun",
             {1, 2, 1, 2, 0, 1}},
        Case{"StrayRank", {{"RANK", "7"}}, "none", {0, 1, 0, 1, 0, 1}},
        Case{"TorchrunInSlurmStep", with(kTorchrun, kSlurm), "torchrun", {3, 4, 1, 2, 1, 2}},
        Case{"XoeInsideAll", with(with(with(kTorchrun, kSlurm), kOpenMpi), kXoe), "xoe", {1, 2, 1, 2, 0, 1}}),
    [](const auto& one) { return one.param.name; });

struct BadCase {
  std::string name;
  Variables variables;
  std::vector<std::string> named;  // what the message must name
};

class Refused : public testing::TestWithParam<BadCase> {};

TEST_P(Refused, NamesTheVariable) {
  const auto info = read_launch_info(Env(GetParam().variables));
  ASSERT_FALSE(info);
  EXPECT_EQ(info.error().code(), Code::kInvalidArgument);
  for (const std::string& name : GetParam().named) EXPECT_THAT(info.error().message(), testing::HasSubstr(name));
}

INSTANTIATE_TEST_SUITE_P(
    Variables, Refused,
    testing::Values(
        BadCase{"NoSize", without(kXoe, "XOE_SIZE"), {"XOE_SIZE", "missing"}},
        BadCase{"NoRank", without(kXoe, "XOE_RANK"), {"XOE_RANK", "missing"}},
        BadCase{"RankIsText", with(kXoe, {{"XOE_RANK", "one"}}), {"XOE_RANK=one"}},
        BadCase{"RankIsNegative", with(kXoe, {{"XOE_RANK", "-1"}}), {"XOE_RANK=-1"}},
        BadCase{"RankBeyondSize", with(kXoe, {{"XOE_RANK", "2"}}), {"XOE_RANK=2", "XOE_SIZE=2"}},
        BadCase{"SizeZero", with(kXoe, {{"XOE_SIZE", "0"}}), {"XOE_SIZE=0"}},
        BadCase{"SizeHuge", with(kXoe, {{"XOE_SIZE", "99999999999999999999"}}), {"XOE_SIZE"}},
        BadCase{"LocalRankBeyond", with(kXoe, {{"XOE_LOCAL_RANK", "5"}}), {"XOE_LOCAL_RANK=5", "XOE_LOCAL_SIZE=2"}},
        BadCase{"LocalSizeBeyond", with(kXoe, {{"XOE_LOCAL_SIZE", "4"}}), {"XOE_LOCAL_SIZE=4", "XOE_SIZE=2"}},
        BadCase{"CrossRankBeyond", with(kXoe, {{"XOE_CROSS_RANK", "1"}}), {"XOE_CROSS_RANK=1", "XOE_CROSS_SIZE=1"}},
        BadCase{"NoJob", without(without(kXoe, "XOE_JOB"), "XOE_STORE"), {"XOE_JOB"}},
        BadCase{"OpenMpiNoLocal", without(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE"), {"OMPI_COMM_WORLD_LOCAL_SIZE"}},
        BadCase{"OpenMpiNoJob", without(kOpenMpi, "PMIX_NAMESPACE"), {"PMIX_NAMESPACE"}},
        BadCase{"OpenMpiLocalZero",
                with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "0"}}),
                {"OMPI_COMM_WORLD_LOCAL_SIZE=0"}},
        BadCase{"MpichRank", with(kMpich, {{"PMI_RANK", "2"}}), {"PMI_RANK=2", "PMI_SIZE=2"}},
        BadCase{"MpichLocal", with(kMpich, {{"MPI_LOCALRANKID", "x"}}), {"MPI_LOCALRANKID=x"}},
        BadCase{"SlurmTasks", with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "2(x"}}), {"SLURM_STEP_TASKS_PER_NODE=2(x"}},
        BadCase{"SlurmNode", with(kSlurm, {{"SLURM_NODEID", "3"}}), {"SLURM_NODEID=3"}},
        BadCase{"SlurmNoTasks", without(kSlurm, "SLURM_NTASKS"), {"SLURM_NTASKS"}},
        BadCase{"SlurmLocal", with(kSlurm, {{"SLURM_LOCALID", "2"}}), {"SLURM_LOCALID=2"}},
        BadCase{"SlurmNoJob", without(kSlurm, "SLURM_JOB_ID"), {"SLURM_JOB_ID"}},
        BadCase{"JsrunNoLocalRank", without(kJsrun, "JSM_NAMESPACE_LOCAL_RANK"), {"JSM_NAMESPACE_LOCAL_RANK"}},
        BadCase{"JsrunOutsideLsf", without(kJsrun, "LSB_JOBID"), {"LSB_JOBID"}},
        BadCase{"TorchrunNoRank", without(kTorchrun, "RANK"), {"RANK"}},
        BadCase{"TorchrunGroup", with(kTorchrun, {{"GROUP_RANK", "2"}}), {"GROUP_RANK=2"}}),
    [](const auto& one) { return one.param.name; });

TEST(LaunchEnv, PassesTheStoreAndItsSecretOn) {
  const auto info = read_launch_info(Env(kXoe)).value();
  EXPECT_EQ(info.job, "j");
  EXPECT_EQ(info.store, "unix:@s");
  EXPECT_EQ(info.secret, "x");
}

TEST(LaunchEnv, SaysWhereRankZeroServesTheStore) {
  const auto without_store = without(kXoe, "XOE_STORE");
  EXPECT_EQ(read_launch_info(Env(without_store)).value().meeting, "");
  const auto info = read_launch_info(Env(with(without_store, {{"XOE_MEETING", "10.0.0.1:4711"}}))).value();
  EXPECT_EQ(info.meeting, "10.0.0.1:4711");
  EXPECT_EQ(info.store, "");
}

TEST(LaunchEnv, TheUserNamesTheHostUnderAnyLauncher) {
  for (const Variables& variables : {kXoe, kTorchrun, kSlurm, kOpenMpi}) {
    EXPECT_EQ(read_launch_info(Env(with(variables, {{"XOE_HOSTNAME", "a"}}))).value().host, "a");
    EXPECT_EQ(read_launch_info(Env(variables)).value().host, host_name());
  }
  EXPECT_EQ(read_launch_info(Env(with(kSlurm, {{"SLURMD_NODENAME", "n1"}}))).value().host, "n1");
}

TEST(LaunchEnv, JobsOfOneUserDiffer) {
  const auto job = [](const Variables& variables) { return read_launch_info(Env(variables)).value().job; };
  EXPECT_EQ(job(kOpenMpi), job(with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}})));
  EXPECT_NE(job(kOpenMpi), job(with(kOpenMpi, {{"PMIX_NAMESPACE", "1146617858"}})));
  EXPECT_NE(job(kOpenMpi), job(with(kOpenMpi, {{"PMIX_SERVER_URI2", "1146617856.0;tcp4://127.0.0.1:1"}})));
  EXPECT_NE(job(kSlurm), job(with(kSlurm, {{"SLURM_STEP_ID", "1"}})));
  EXPECT_NE(job(kSlurm), job(with(kSlurm, {{"SLURM_JOB_ID", "78"}})));
  EXPECT_NE(job(kJsrun), job(with(kJsrun, {{"LSB_JOBID", "78"}})));
  EXPECT_NE(job(kTorchrun), job(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "1"}})));
  EXPECT_NE(job(kTorchrun), job(with(kTorchrun, {{"MASTER_PORT", "29501"}})));
}

}  // namespace
}  // namespace xoe::bootstrap

// GPUs, by a library that plays NVML.
#include <gmock/gmock.h>

#include <chrono>

#include "core/testing/places.h"
#include "launch/doctor/checks/gpus.h"
#include "launch/tests/doctor/findings.h"

namespace xoe::doctor {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr auto kTimeout = 20s;

Findings check(const GpuTraces& traces = {}, const CudaLibraries& libraries = {.nccl = 22705, .nccl_cuda = "12.4"}) {
  return check_gpus(ask_nvml(built_file("libmock_nvml.so"), kTimeout), libraries, traces);
}

TEST(Gpus, PairWithNvlinks) {
  const Findings all = check();
  EXPECT_EQ(find(all, "gpu.driver").details["driver"], "550.54.14");
  EXPECT_EQ(find(all, "gpu.driver").details["cuda"], "12.4");
  EXPECT_EQ(find(all, "gpu.1").details["uuid"], "GPU-00000000-1111-2222-3333-444444444441");
  EXPECT_EQ(find(all, "gpu.1").details["mig"], "off");
  const Finding& topology = find(all, "gpu.topology");
  EXPECT_EQ(topology.details["matrix"], Json::parse(R"([["X","NV4"],["NV4","X"]])"));
  EXPECT_EQ(topology.details["nvlink"], Json::parse(R"([{"gpus":[0,1],"links":4}])"));
  EXPECT_THAT(topology.table, HasSubstr("GPU1  NV4   X"));
}

TEST(Gpus, SwitchJoinsAll) {
  const Setting four("XOE_MOCK_GPUS", "switch");
  const Findings all = check();
  EXPECT_EQ(find(all, "gpu.topology").details["nvlink"].size(), 6U);
  EXPECT_EQ(find(all, "gpu.topology").details["matrix"][3][0], "NV12");
}

TEST(Gpus, HeldGpuNamesWhoHoldsIt) {
  const Setting held("XOE_MOCK_TROUBLE", "held");
  const Findings all = check({.names = {"4000 python3"}});
  expect_states(all, {{"gpu.0", Severity::kWarning}, {"gpu.1", Severity::kOk}});
  EXPECT_THAT(find(all, "gpu.0").what, HasSubstr("4000 python3 with 1 GiB"));
  EXPECT_EQ(find(all, "gpu.0").details["processes"].size(), 70U);
}

TEST(Gpus, PartedGpuAndBlockedTransfers) {
  {
    const Setting mig("XOE_MOCK_TROUBLE", "mig");
    const Findings all = check();
    expect_states(all, {{"gpu.0", Severity::kOk}, {"gpu.1", Severity::kWarning}});
    EXPECT_THAT(find(all, "gpu.1").fix, HasSubstr("nvidia-smi -i 1 -mig 0"));
  }
  const Setting blocked("XOE_MOCK_TROUBLE", "p2p");
  const Findings all = check();
  expect_states(all, {{"gpu.topology", Severity::kWarning}});
  EXPECT_THAT(find(all, "gpu.topology").what, HasSubstr("the chipset does not support it"));
}

TEST(Gpus, NewerCudaThanTheDriverIsAProblem) {
  const CudaLibraries thirteen{.nccl = 22705, .nccl_cuda = "13.0", .runtimes = {13000}};
  {
    const Findings all = check({}, thirteen);
    expect_states(all, {{"gpu.cuda", Severity::kProblem}});
    EXPECT_THAT(find(all, "gpu.cuda").fix, HasSubstr("driver 580"));
  }
  const Setting driver("XOE_MOCK_DRIVER", "580.65.06");
  const Setting cuda("XOE_MOCK_CUDA", "13000");
  expect_states(check({}, thirteen), {{"gpu.cuda", Severity::kOk}});
  expect_states(check({}, {.nccl = 22705, .runtimes = {12040}}), {{"gpu.cuda", Severity::kOk}});
  EXPECT_EQ(oldest_driver(12), 525);
  EXPECT_EQ(oldest_driver(11), 450);
}

TEST(Gpus, NcclTellsItsVersionAndItsCuda) {
  const CudaLibraries libraries = ask_cuda_libraries(built_file("libmock_nccl_version.so"), kTimeout);
  EXPECT_EQ(nccl_version_text(libraries.nccl), "2.27.5");
  EXPECT_EQ(libraries.nccl_cuda, "13.0");
  const Setting old("XOE_MOCK_NCCL", "2708");
  EXPECT_EQ(nccl_version_text(ask_cuda_libraries(built_file("libmock_nccl_version.so"), kTimeout).nccl), "2.7.8");
  const CudaLibraries none = ask_cuda_libraries("libxoe-no-such.so", kTimeout);
  expect_states(check({}, none), {{"gpu.nccl", Severity::kWarning}});
  EXPECT_THAT(find(check({}, none), "gpu.nccl").what, HasSubstr("libxoe-no-such.so"));
}

TEST(Gpus, TheWayOfCollectives) {
  const GpuFacts facts = ask_nvml(built_file("libmock_nvml.so"), kTimeout);
  const auto collectives = [&](int nccl, const GpuVariables& variables) {
    return find(check_gpus(facts, {.nccl_error = nccl == 0 ? "none" : "", .nccl = nccl}, {}, variables),
                "gpu.collectives");
  };
  EXPECT_EQ(collectives(23007, {}).details, Json({{"xoe_gpu", "auto"},
                                                  {"apart", "nccl"},
                                                  {"shared", "staged"},
                                                  {"reason", "NCCL refuses a GPU that two ranks have"}}));
  EXPECT_EQ(collectives(23007, {}).what,
            "collectives of ranks with a GPU of their own: NCCL; of ranks that share one: staged through pinned host "
            "memory (NCCL refuses a GPU that two ranks have)");
  EXPECT_EQ(collectives(0, {}).what, "collectives of GPU memory: staged through pinned host memory (there is no NCCL)");
  EXPECT_EQ(collectives(23007, {.many_ranks = true}).what, "collectives of GPU memory: NCCL");
  EXPECT_EQ(collectives(22705, {.many_ranks = true}).details["shared"], "staged");
  EXPECT_EQ(collectives(23007, {.transport = "staged"}).details["apart"], "staged");
  EXPECT_EQ(collectives(23007, {.transport = "nccl"}).details["shared"], "error");
  EXPECT_EQ(collectives(23007, {.transport = "host"}).details["apart"], "");
  const GpuVariables read = read_gpu_variables(Env({{"XOE_GPU", "staged"}, {"NCCL_MULTI_RANK_GPU_ENABLE", "1"}}));
  EXPECT_EQ(read.transport, "staged");
  EXPECT_TRUE(read.many_ranks);
}

TEST(Gpus, MismatchCrashAndHangAreProblemsNotOurs) {
  {
    const Setting mismatch("XOE_MOCK_TROUBLE", "mismatch");
    const Findings all = check();
    expect_states(all, {{"gpu.driver", Severity::kProblem}});
    EXPECT_THAT(find(all, "gpu.driver").fix, HasSubstr("reboot"));
  }
  {
    const Setting crash("XOE_MOCK_TROUBLE", "crash");
    const Findings all = check();
    expect_states(all, {{"gpu.driver", Severity::kProblem}});
    EXPECT_THAT(find(all, "gpu.driver").what, HasSubstr("it "));
  }
  const Setting hang("XOE_MOCK_TROUBLE", "hang");
  const GpuFacts facts = ask_nvml(built_file("libmock_nvml.so"), 200ms);
  EXPECT_THAT(facts.error, HasSubstr("no answer within 200 ms"));
}

TEST(Gpus, WithoutADriverItDependsOnWhatIsOnPci) {
  const GpuFacts none = ask_nvml("libxoe-no-such.so", kTimeout);
  EXPECT_THAT(none.absent, HasSubstr("libxoe-no-such.so"));
  expect_states(check_gpus(none, {}, {}), {{"gpu.driver", Severity::kOk}});
  const Findings bare = check_gpus(none, {}, {.on_pci = 2});
  expect_states(bare, {{"gpu.driver", Severity::kProblem}});
  EXPECT_THAT(find(bare, "gpu.driver").what, HasSubstr("2 NVIDIA GPUs on PCI, but no driver"));
  EXPECT_THAT(find(check_gpus(none, {}, {.on_pci = 1, .nouveau = true}), "gpu.driver").fix,
              HasSubstr("blacklist nouveau"));
  EXPECT_THAT(find(check_gpus(none, {}, {.on_pci = 1, .kernel_module = true}), "gpu.driver").fix,
              HasSubstr("docker run --gpus all"));
  const Setting no_gpus("XOE_MOCK_GPUS", "none");
  expect_states(check(), {{"gpu.count", Severity::kWarning}});
}

TEST(Gpus, TracesOfTheRecordedMachine) {
  const GpuTraces traces = read_gpu_traces(Tree(tree_path("vm")), {});
  EXPECT_EQ(traces.on_pci, 2);
  EXPECT_TRUE(traces.kernel_module);
  EXPECT_FALSE(traces.nouveau);
}

}  // namespace
}  // namespace xoe::doctor

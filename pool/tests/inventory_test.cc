// What an agent tells of a host, on the mock of NVML.
#include "pool/inventory/inventory.h"
#include "core/testing/places.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>

#include "core/testing/scratch.h"
#include "pool/server/json.h"

namespace xoe::pool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class InventoryTest : public ::testing::Test {
 protected:
  ~InventoryTest() override {
    for (const char* name : {"XOE_MOCK_GPUS", "XOE_MOCK_TROUBLE", "XOE_MOCK_STATE", "XOE_MOCK_ROCM",
                             "XOE_MOCK_ROCM_PID", "XOE_MOCK_MIG_EMPTY"})
      ::unsetenv(name);
  }
  static Inventory inventory(const std::string& library = built_file("libmock_nvml.so")) {
    std::vector<std::unique_ptr<GpuVendor>> vendors;
    vendors.push_back(nvidia_gpus(library));
    return {"a", std::move(vendors)};
  }
  Scratch scratch_;
};

TEST_F(InventoryTest, TellsFactsAndLinks) {
  ::setenv("XOE_MOCK_GPUS", "four", 1);
  const HostReport report = inventory().report();
  ASSERT_EQ(report.gpus.size(), 4U);
  EXPECT_THAT(report.without, IsEmpty());
  const Gpu& first = report.gpus[0];
  EXPECT_EQ(first.name, "Tesla T4");
  EXPECT_EQ(first.host, "a");
  EXPECT_EQ(first.memory, 15ULL << 30);
  EXPECT_EQ(first.pci, "00000000:03:00.0");
  EXPECT_THAT(first.nvlinks, ElementsAre(report.gpus[1].uuid));
  EXPECT_THAT(report.gpus[3].nvlinks, ElementsAre(report.gpus[2].uuid));
  EXPECT_EQ(report.activity[0].temperature, 41);
}

TEST_F(InventoryTest, BehindASwitchEachIsLinkedToEach) {
  ::setenv("XOE_MOCK_GPUS", "switch", 1);
  const HostReport report = inventory().report();
  ASSERT_EQ(report.gpus.size(), 4U);
  for (const Gpu& gpu : report.gpus) EXPECT_EQ(gpu.nvlinks.size(), 3U);
}

TEST_F(InventoryTest, TellsWhoUsesWhat) {
  const std::string state = scratch_.file("state");
  put_file(state, "1 88 2048 " + std::to_string(::getpid()) + ",999999999\n");
  ::setenv("XOE_MOCK_STATE", state.c_str(), 1);
  Inventory gpus = inventory();
  gpus.report();
  const std::clock_t end = std::clock() + CLOCKS_PER_SEC / 10;  // of a processor, however many share it
  while (std::clock() < end) {
  }
  const HostReport report = gpus.report();
  EXPECT_THAT(report.activity[0].processes, IsEmpty());
  const GpuActivity& seen = report.activity[1];
  EXPECT_EQ(seen.utilisation, 88);
  EXPECT_EQ(seen.memory_used, 2048ULL << 20);
  ASSERT_EQ(seen.processes.size(), 2U);
  EXPECT_EQ(seen.processes[0].pid, ::getpid());
  EXPECT_EQ(seen.processes[0].user, user_of_process(::getpid()));
  EXPECT_GT(seen.processes[0].cpu, 0);
  EXPECT_EQ(seen.processes[1].user, "");
}

TEST_F(InventoryTest, GivesAwayInstancesOfAGpuInMigMode) {
  ::setenv("XOE_MOCK_TROUBLE", "mig", 1);
  const HostReport report = inventory().report();
  ASSERT_EQ(report.gpus.size(), 3U);
  EXPECT_EQ(report.gpus[1].pci, report.gpus[2].pci);
  EXPECT_NE(report.gpus[1].uuid, report.gpus[2].uuid);
  EXPECT_THAT(report.gpus[1].uuid, ::testing::StartsWith("MIG-"));
  EXPECT_THAT(report.gpus[1].name, ::testing::EndsWith("MIG 1g.5gb"));
  EXPECT_EQ(report.gpus[1].memory, 5ULL << 30);
  EXPECT_THAT(report.gpus[1].nvlinks, IsEmpty());
  EXPECT_EQ(report.activity[0].utilisation, 0);
  EXPECT_EQ(report.activity[1].utilisation, std::nullopt);
  const auto told = report_of(json_of(report));
  EXPECT_EQ(told->activity[1].utilisation, std::nullopt);
  // The GPU itself cannot be used in that mode.
  ::setenv("XOE_MOCK_MIG_EMPTY", "1", 1);
  EXPECT_EQ(inventory().report().gpus.size(), 1U);
  ::unsetenv("XOE_MOCK_TROUBLE");
  EXPECT_EQ(inventory().report().gpus.size(), 2U);
}

// What a driver does not list is not none, also where the pool is told of it.
TEST_F(InventoryTest, ProcessesThatADriverDoesNotListAreNotKnown) {
  const std::string state = scratch_.file("state");
  put_file(state, "0 99 2048 " + std::to_string(::getpid()) + "\n");
  ::setenv("XOE_MOCK_STATE", state.c_str(), 1);
  ::setenv("XOE_MOCK_TROUBLE", "unlisted", 1);
  HostReport report = inventory().report();
  ASSERT_FALSE(report.activity.empty());
  EXPECT_FALSE(report.activity[0].processes_known);
  EXPECT_EQ(report.activity[0].utilisation, 99);
  auto told = report_of(json_of(report));
  ASSERT_TRUE(told);
  EXPECT_FALSE(told->activity[0].processes_known);
  ::unsetenv("XOE_MOCK_TROUBLE");
  EXPECT_TRUE(report_of(json_of(inventory().report()))->activity[0].processes_known);
  // AMD's library tells of a process, and not where it is.
  ::setenv("XOE_MOCK_ROCM", "unlisted", 1);
  for (const bool is_alive : {true, false}) {
    ::setenv("XOE_MOCK_ROCM_PID", is_alive ? std::to_string(::getpid()).c_str() : "999999999", 1);
    std::vector<std::unique_ptr<GpuVendor>> vendors;
    vendors.push_back(amd_gpus(built_file("libmock_rocm_smi.so")));
    report = Inventory("a", std::move(vendors)).report();
    ASSERT_EQ(report.gpus.size(), 2U);
    for (const GpuActivity& activity : report.activity) EXPECT_EQ(activity.processes_known, !is_alive);
  }
}

// One that is not told of is not gone, and one whose mode is not told must not be given away as a whole.
TEST_F(InventoryTest, AGpuThatDoesNotTellWhatItIsIsLeftOutWhichTheReportSays) {
  ::setenv("XOE_MOCK_TROUBLE", "lost", 1);
  HostReport report = inventory().report();
  ASSERT_EQ(report.gpus.size(), 1U);
  EXPECT_EQ(report.problem, "GPU 1 of NVIDIA is left out: it does not answer: GPU is lost");
  ::setenv("XOE_MOCK_TROUBLE", "mode", 1);
  report = inventory().report();
  ASSERT_EQ(report.gpus.size(), 1U);
  EXPECT_EQ(report.problem, "GPU 1 of NVIDIA is left out: it does not tell whether it is in MIG mode: another error");
  ::setenv("XOE_MOCK_ROCM", "nameless", 1);
  std::vector<std::unique_ptr<GpuVendor>> vendors;
  vendors.push_back(amd_gpus(built_file("libmock_rocm_smi.so")));
  report = Inventory("a", std::move(vendors)).report();
  ASSERT_EQ(report.gpus.size(), 1U);
  EXPECT_EQ(report.problem, "GPU 1 of AMD is left out: it does not tell its unique id");
}

TEST_F(InventoryTest, AHostWithoutADriverSaysSoUntilItHasOne) {
  const std::string library = scratch_.file("libnvidia-ml.so.1");
  Inventory gpus = inventory(library);
  EXPECT_THAT(gpus.report().without, HasSubstr("cannot open shared object file"));
  std::filesystem::copy_file(built_file("libmock_nvml.so"), library);
  EXPECT_EQ(gpus.report().gpus.size(), 2U);
  ::setenv("XOE_MOCK_TROUBLE", "mismatch", 1);
  EXPECT_THAT(gpus.report().without, HasSubstr("Driver/library version mismatch"));
}

TEST_F(InventoryTest, TellsOfAmdsGpusBesideNvidias) {
  ::setenv("XOE_MOCK_GPUS", "none", 1);
  ::setenv("XOE_MOCK_ROCM_PID", std::to_string(::getpid()).c_str(), 1);
  std::vector<std::unique_ptr<GpuVendor>> vendors;
  vendors.push_back(nvidia_gpus(built_file("libmock_nvml.so")));
  vendors.push_back(amd_gpus(built_file("libmock_rocm_smi.so")));
  Inventory both("a", std::move(vendors));
  HostReport report = both.report();
  ASSERT_EQ(report.gpus.size(), 2U);
  EXPECT_EQ(report.gpus[0], (Gpu{.uuid = "GPU-000000000000abc0",
                                 .host = "a",
                                 .name = "AMD Instinct MI210",
                                 .pci = "0000:43:00.0",
                                 .memory = 64ULL << 30,
                                 .nvlinks = {"GPU-000000000000abc1"}}));
  EXPECT_EQ(report.activity[0].utilisation, 87);
  EXPECT_EQ(report.activity[0].temperature, 41);
  ASSERT_EQ(report.activity[0].processes.size(), 1U);
  EXPECT_EQ(report.activity[0].processes[0].pid, ::getpid());
  EXPECT_THAT(report.activity[1].processes, IsEmpty());
  ::setenv("XOE_MOCK_GPUS", "four", 1);
  EXPECT_EQ(both.report().gpus.size(), 6U);
  ::setenv("XOE_MOCK_GPUS", "none", 1);
  ::setenv("XOE_MOCK_ROCM", "old", 1);
  report = both.report();
  EXPECT_THAT(report.gpus, IsEmpty());
  EXPECT_THAT(report.without, HasSubstr("ROCm SMI does not start"));
}

TEST_F(InventoryTest, GpusThatAreLeftOutAreTold) {
  ::setenv("XOE_MOCK_GPUS", "many", 1);
  ::setenv("XOE_MOCK_ROCM", "many", 1);
  std::vector<std::unique_ptr<GpuVendor>> vendors;
  vendors.push_back(nvidia_gpus(built_file("libmock_nvml.so")));
  vendors.push_back(amd_gpus(built_file("libmock_rocm_smi.so")));
  const HostReport report = Inventory("a", std::move(vendors)).report();
  EXPECT_EQ(report.gpus.size(), 128U);
  EXPECT_EQ(report.problem,
            "70 GPUs of NVIDIA are more than the 64 that are reported; 70 GPUs of AMD are more than the 64 that are "
            "reported");
}

}  // namespace
}  // namespace xoe::pool

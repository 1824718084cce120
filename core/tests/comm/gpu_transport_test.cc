// The transport of GPU memory: the decision of all ranks from what each tells.
#include <gmock/gmock.h>

#include "core/backend/gpu_transport.h"

namespace xoe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

RankGpu gpu(int rank, const std::string& uuid, const std::string& bus) {
  return {.rank = rank,
          .pid = 4400 + rank,
          .host = "nodeA",
          .boot = "boot-a",
          .uuid = uuid,
          .bus = bus,
          .nccl = "2.30.7",
          .staging_bytes = 1024};
}

std::vector<RankGpu> two_gpus() { return {gpu(0, "GPU-a", "0000:01:00.0"), gpu(1, "GPU-b", "0000:02:00.0")}; }

// "nccl", "staged: why" or "error: why"
std::string decide(const std::vector<RankGpu>& ranks) {
  const auto choice = choose_gpu_transport(ranks);
  if (!choice) return "error: " + choice.error().message();
  return choice->transport == GpuTransport::kNccl ? "nccl" : "staged: " + choice->why;
}

TEST(GpuTransport, NcclWhereEachRankHasAGpu) {
  EXPECT_EQ(decide(two_gpus()), "nccl");
  EXPECT_EQ(decide({gpu(0, "GPU-a", "0000:01:00.0")}), "nccl");
}

TEST(GpuTransport, StagedWhereTwoHaveOne) {
  auto ranks = two_gpus();
  ranks[1].uuid = ranks[0].uuid;
  EXPECT_EQ(
      decide(ranks),
      "staged: rank 0 (nodeA, pid 4400) and rank 1 (nodeA, pid 4401) have the same GPU, GPU-a, which NCCL refuses");
  // Containers of one machine have names of their own.
  ranks[1].host = "other";
  EXPECT_THAT(decide(ranks), HasSubstr("same GPU"));
  ranks[1].requested = "nccl";
  EXPECT_THAT(decide(ranks), AllOf(HasSubstr("error: rank 0"), HasSubstr("CUDA_VISIBLE_DEVICES")));
}

// Instances (MIG) of a GPU may have names of their own, and have one PCI address.
TEST(GpuTransport, StagedForInstancesOfOneGpu) {
  auto ranks = two_gpus();
  ranks[1].bus = ranks[0].bus;
  EXPECT_THAT(decide(ranks),
              HasSubstr("staged: rank 0 (nodeA, pid 4400) and rank 1 (nodeA, pid 4401) have the same GPU, "
                        "at 0000:01:00.0"));
  ranks[1].host = "nodeB";
  EXPECT_THAT(decide(ranks), HasSubstr("staged"));  // the name may be a container's
  ranks[1].boot = "boot-b";
  EXPECT_EQ(decide(ranks), "nccl");
  ranks[0].boot = ranks[1].boot = "";
  EXPECT_EQ(decide(ranks), "nccl");
  ranks[1].host = ranks[0].host;
  EXPECT_THAT(decide(ranks), HasSubstr("staged"));
}

TEST(GpuTransport, NcclWhereItWasToldToShare) {
  auto ranks = two_gpus();
  ranks[1].uuid = ranks[0].uuid;
  ranks[0].nccl_shares_gpus = true;
  EXPECT_THAT(decide(ranks), HasSubstr("staged"));
  ranks[1].nccl_shares_gpus = true;
  EXPECT_EQ(decide(ranks), "nccl");
}

TEST(GpuTransport, StagedWithoutTheSameNcclEverywhere) {
  auto ranks = two_gpus();
  ranks[1].nccl = "2.18.5";
  EXPECT_EQ(
      decide(ranks),
      "staged: rank 0 (nodeA, pid 4400) has NCCL 2.30.7, rank 1 (nodeA, pid 4401) has 2.18.5; install the same for "
      "all ranks");
  ranks[1].nccl = "";
  ranks[1].nccl_missing = "libnccl.so.2: cannot open shared object file";
  EXPECT_THAT(decide(ranks), HasSubstr("rank 1 (nodeA, pid 4401) has no NCCL: libnccl.so.2: cannot open"));
  ranks[0].requested = "nccl";
  EXPECT_THAT(decide(ranks), HasSubstr("error: rank 1 (nodeA, pid 4401) has no NCCL"));
}

TEST(GpuTransport, WishesMayNotContradictEachOther) {
  auto ranks = two_gpus();
  ranks[1].requested = "staged";
  EXPECT_EQ(decide(ranks), "staged: rank 1 (nodeA, pid 4401) has XOE_GPU=staged or XOE_DETERMINISTIC=placement-free");
  ranks[0].requested = "nccl";
  EXPECT_THAT(decide(ranks), HasSubstr("error: rank 0 (nodeA, pid 4400) has XOE_GPU=nccl, rank 1 (nodeA, pid 4401) has "
                                       "XOE_GPU=staged"));
}

TEST(GpuTransport, AnOrderThatDoesNotDependOnThePlacementIsNotThatOfNccl) {
  const auto requested = [](const char* gpu, const char* deterministic) {
    return requested_gpu_transport(Env({{"XOE_GPU", gpu}, {"XOE_DETERMINISTIC", deterministic}}));
  };
  EXPECT_EQ(requested("", ""), "auto");
  EXPECT_EQ(requested("", "placement-free"), "staged");
  EXPECT_EQ(requested("auto", "placement-free"), "staged");
  EXPECT_EQ(requested("host", "placement-free"), "host");
  EXPECT_EQ(requested("nccl", "placement"), "nccl");
}

TEST(GpuTransport, TheLeastMemoryCounts) {
  auto ranks = two_gpus();
  ranks[1].staging_bytes = 512;
  EXPECT_EQ(choose_gpu_transport(ranks)->staging_bytes, 512U);
}

TEST(GpuTransport, EncryptedMemoryIsStagedBetweenHosts) {
  auto ranks = two_gpus();
  ranks[0].encrypts = ranks[1].encrypts = true;
  EXPECT_EQ(choose_gpu_transport(ranks)->transport, GpuTransport::kNccl) << "within a host nothing is sent";
  ranks[1].host = "nodeB";
  EXPECT_EQ(choose_gpu_transport(ranks)->transport, GpuTransport::kStaged);
  EXPECT_THAT(choose_gpu_transport(ranks)->why, HasSubstr("XOE_ENCRYPT=1"));
  ranks[1].requested = "nccl";
  EXPECT_THAT(choose_gpu_transport(ranks).error().message(), HasSubstr("NCCL does not encrypt"));
}

TEST(RankGpu, CrossesBetweenRanks) {
  RankGpu sent = gpu(3, "GPU-a", "0000:01:00.0");
  sent.nccl = "";
  sent.nccl_missing = "a\x1f reason\twith\nall";
  sent.nccl_shares_gpus = true;
  sent.encrypts = true;
  const auto got = RankGpu::decode(sent.encode());
  ASSERT_TRUE(got);
  EXPECT_EQ(got->name(), "rank 3 (nodeA, pid 4403)");
  EXPECT_EQ(got->uuid, sent.uuid);
  EXPECT_EQ(got->bus, sent.bus);
  EXPECT_EQ(got->boot, sent.boot);
  EXPECT_EQ(got->nccl, "");
  EXPECT_EQ(got->nccl_missing, "a  reason\twith\nall");
  EXPECT_TRUE(got->nccl_shares_gpus);
  EXPECT_TRUE(got->encrypts);
  EXPECT_EQ(got->staging_bytes, 1024U);
  EXPECT_FALSE(RankGpu::decode(""));
  EXPECT_FALSE(
      RankGpu::decode("auto\x1f"
                      "0"));
}

}  // namespace
}  // namespace xoe

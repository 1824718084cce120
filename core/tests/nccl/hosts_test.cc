// Groups of a job on nccl alone: what ranks agree on in host memory, collectives of GPU memory, groups of groups.
#include <gmock/gmock.h>

#include "core/backend/hierarchical/backend.h"
#include "core/bootstrap/own_keys.h"
#include "core/tests/nccl/members.h"
#include "xoe/communicator.h"

namespace xoe::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Runs body(communicator) for each rank on a thread, each on a host of its own with one GPU.
void run_job(MockMachine& machine, int size, const std::function<void(Communicator&)>& body) {
  const auto store = std::make_shared<bootstrap::OwnKeys>(bootstrap::make_memory_store());
  std::vector<hierarchical::RankInfo> facts;
  for (int r = 0; r < size; ++r)
    facts.push_back({.host = "node" + std::to_string(r), .address = "127.0.0.1", .pid = ::getpid()});
  std::vector<std::jthread> ranks;
  for (int r = 0; r < size; ++r)
    ranks.emplace_back([&, r] {
      (void)mock_cuda_api().set_device(r);
      auto world = hierarchical::Context::join(facts, r, store, open_nccl(machine, {.local_rank = r}),
                                               {.keys = "test/",
                                                .secret = "0123456789abcdef0123456789abcdef",
                                                .address = "127.0.0.1",
                                                .start_timeout = seconds(60),
                                                .waits = {.limits = {.limit = seconds(60), .spares_computing = false}},
                                                .arena_bytes = std::size_t{64} << 20,
                                                .routing = {.flat = true}});
      ASSERT_TRUE(world) << world.error().message();
      auto backend = hierarchical::HierarchicalBackend::make(std::move(*world));
      ASSERT_TRUE(backend) << backend.error().message();
      Communicator communicator(std::move(*backend));
      body(communicator);
      // No rank leaves before all are done.
      (void)communicator.barrier();
    });
}

TEST(NcclJob, ReducesGpuMemory) {
  MockMachine machine(3);
  run_job(machine, 3, [](Communicator& world) {
    EXPECT_EQ(world.backend_name(), "nccl");
    const OnGpu<float> data(1000, static_cast<float>(world.rank() + 1));
    const Status status = world.backend().run(gpu_allreduce(data.data(), data.size()));
    ASSERT_TRUE(status) << status.error().message();
    EXPECT_EQ(data[999], 6.0f);
    ASSERT_TRUE(world.backend().supports(gpu_allreduce(data.data(), data.size())));
  });
  expect_clean(machine);
}

TEST(NcclJob, TellsWordsAndRefusesTensorsOfTheHost) {
  MockMachine machine(2);
  run_job(machine, 2, [](Communicator& world) {
    const std::vector<std::size_t> sends{1, static_cast<std::size_t>(world.rank()) + 2};
    const auto counts = world.alltoall_counts(sends);
    ASSERT_TRUE(counts) << counts.error().message();
    EXPECT_EQ(*counts, world.rank() == 0 ? (std::vector<std::size_t>{1, 1}) : (std::vector<std::size_t>{2, 3}));
    std::vector<float> host(10);
    const Status refused = world.allreduce({host.data(), host.size()});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::kUnsupported);
    EXPECT_THAT(refused.error().message(), HasSubstr("pass GPU memory"));
    EXPECT_TRUE(world.barrier());
  });
  expect_clean(machine);
}

TEST(NcclJob, SplitsIntoGroupsOnGpus) {
  MockMachine machine(3);
  run_job(machine, 3, [](Communicator& world) {
    auto group = world.split(world.rank() == 2 ? 1 : 0);
    ASSERT_TRUE(group) << group.error().message();
    const OnGpu<float> data(10, 1.0f);
    const Status status = (*group)->backend().run(gpu_allreduce(data.data(), data.size()));
    ASSERT_TRUE(status) << status.error().message();
    EXPECT_EQ(data[0], world.rank() == 2 ? 1.0f : 2.0f);
    (void)world.barrier();
  });
  expect_clean(machine);
}

TEST(NcclJob, ReportsWhatRanksCallDifferently) {
  MockMachine machine(2);
  run_job(machine, 2, [](Communicator& world) {
    const OnGpu<float> data(10);
    const Status status = world.backend().run(gpu_allreduce(data.data(), world.rank() == 0 ? 10 : 9));
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(status.error().message(), AllOf(HasSubstr("ranks disagree"), HasSubstr("conv1.weight")));
  });
  expect_clean(machine);
}

}  // namespace
}  // namespace xoe::testing

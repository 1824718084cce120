// XOE_GPU_WAIT=stream: a stream waits for a result, and the host does not.
#include <barrier>
#include <latch>

#include <gmock/gmock.h>

#include "core/tests/nccl/gpu_ranks.h"

namespace xoe::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr std::size_t kCount = 1000;
const std::vector<std::int64_t> kShape{kCount};

// Every rank submits what its stream has not made yet, waits in another stream, and only then lets the first one go on.
TEST(StreamWait, TheHostGoesOnBeforeTheInputIsThere) {
  MockMachine machine(2);
  std::latch waited(2);
  machine.before_copy = [&] { waited.wait(); };
  run_gpu_ranks(
      machine, 2,
      [&](GpuRank& rank) {
        const OnGpu<float> data(kCount), out(kCount);
        const std::vector<float> made(kCount, static_cast<float>(rank.rank() + 1));
        const Stream consumer;
        const std::vector tensors{in_place(data, kShape)};
        rank.stream().copy(data.data(), made.data(), kCount * sizeof(float));  // stands still
        auto handle = rank.submit({.name = "gradient", .tensors = tensors});
        ASSERT_TRUE(handle) << handle.error().message();
        const Status status = handle->wait_in_stream(consumer.get());
        EXPECT_TRUE(status) << status.error().message();
        EXPECT_FALSE(handle->poll()) << "its input is not there yet";
        consumer.copy(out.data(), data.data(), kCount * sizeof(float));
        waited.count_down();
        consumer.wait();
        EXPECT_THAT(values_of(out), Each(3.0F));
        EXPECT_TRUE(handle->wait());
        EXPECT_TRUE(handle->wait_in_stream(consumer.get())) << "once more, after it has completed";
      },
      GpuUse{.waits_in_stream = true});
  expect_clean(machine);
}

// A group travels in several collectives: the stream waits for all of them.
TEST(StreamWait, ForAllTensorsOfAGroup) {
  MockMachine machine(2);
  for (MockFaults& faults : machine.faults) faults.copies_for = std::chrono::milliseconds(10);
  run_gpu_ranks(
      machine, 2,
      [&](GpuRank& rank) {
        std::vector<std::unique_ptr<OnGpu<float>>> data;
        std::vector<TensorArg> tensors;
        const std::vector<std::int64_t> large{3'000'000};
        for (int i = 0; i < 4; ++i) {
          data.push_back(std::make_unique<OnGpu<float>>(i == 0 ? kCount : 3'000'000, static_cast<float>(i)));
          tensors.push_back(in_place(*data.back(), i == 0 ? kShape : large));
        }
        const OnGpu<float> out(3'000'000);
        const Stream consumer;
        for (int round = 1; round <= 3; ++round) {
          auto handle = rank.submit({.name = "group", .tensors = tensors});
          ASSERT_TRUE(handle) << handle.error().message();
          EXPECT_TRUE(handle->wait_in_stream(consumer.get()));
          consumer.copy(out.data(), data.back()->data(), out.size() * sizeof(float));
          consumer.wait();
          EXPECT_EQ(out[out.size() - 1], 3.0F * static_cast<float>(1 << round));
          EXPECT_TRUE(handle->wait());
        }
      },
      GpuUse{.waits_in_stream = true});
  expect_clean(machine);
}

// Where the result cannot be waited for in a stream the host waits.
TEST(StreamWait, ElseTheHostWaits) {
  for (const GpuUse& use : {GpuUse{.waits_in_stream = false}, GpuUse{.requested = "staged", .waits_in_stream = true}}) {
    MockMachine machine(2);
    for (MockFaults& faults : machine.faults) faults.copies_for = std::chrono::milliseconds(10);
    run_gpu_ranks(
        machine, 2,
        [&](GpuRank& rank) {
          const OnGpu<float> data(kCount, 1.0F);
          const std::vector tensors{in_place(data, kShape)};
          auto handle = rank.submit({.name = "gradient", .tensors = tensors});
          ASSERT_TRUE(handle) << handle.error().message();
          EXPECT_TRUE(handle->wait_in_stream(rank.stream().get()));
          EXPECT_TRUE(handle->poll());
          EXPECT_THAT(values_of(data), Each(2.0F));
        },
        use);
    expect_clean(machine);
  }
}

// What fails after the wait is told to the next operation.
TEST(StreamWait, AFailureAfterwardsReachesTheNextOperation) {
  MockMachine machine(2);
  std::barrier both(2);
  std::latch waited(2);
  machine.before_copy = [&] { waited.wait(); };
  run_gpu_ranks(
      machine, 2,
      [&](GpuRank& rank) {
        const OnGpu<float> data(kCount);
        const std::vector<float> made(kCount, 1.0F);
        const std::vector tensors{in_place(data, kShape)};
        rank.stream().copy(data.data(), made.data(), kCount * sizeof(float));
        auto handle = rank.submit({.name = "gradient", .tensors = tensors});
        ASSERT_TRUE(handle) << handle.error().message();
        EXPECT_TRUE(handle->wait_in_stream(rank.stream().get()));
        both.arrive_and_wait();
        machine.fail(rank.rank(), NcclResult::kRemoteError);
        waited.count_down();
        EXPECT_FALSE(handle->wait());
        EXPECT_FALSE(rank.run({.name = "next", .tensors = tensors}));
      },
      GpuUse{.waits_in_stream = true});
}

TEST(StreamWait, RefusesAnotherWord) {
  const auto plugin =
      engine::GpuPlugin::of_process(Env(std::map<std::string, std::string, std::less<>>{{"XOE_GPU_WAIT", "gpu"}}), 0);
  const auto provider = plugin->provider();
  ASSERT_FALSE(provider);
  EXPECT_THAT(provider.error().message(), HasSubstr("XOE_GPU_WAIT=gpu: expected host, stream"));
}

}  // namespace
}  // namespace xoe::testing

// What Xoe leaves of CUDA as it found it: contexts, errors of threads, and graphs that the program captures.
#include <barrier>

#include <gmock/gmock.h>

#include "core/tests/nccl/gpu_ranks.h"

namespace xoe::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void set_capturing(MockMachine& machine, const void* stream, bool on) {
  const std::lock_guard lock(machine.mutex);
  if (on)
    machine.capturing.insert(stream);
  else
    machine.capturing.erase(stream);
}

// An allreduce in place.
Collective sum_of(const OnGpu<float>& data, const Stream& stream) {
  return {.kind = CollectiveKind::kAllreduce,
          .dtype = DType::kFloat32,
          .op = ReduceOp::kSum,
          .in = data.data(),
          .out = data.data(),
          .in_count = data.size(),
          .out_count = data.size(),
          .device = true,
          .stream = stream.get()};
}

TEST(GpuGraphs, AnOperationInACaptureIsRefusedByName) {
  MockMachine machine(2);
  run_gpu_ranks(machine, 2, [&](GpuRank& rank) {
    const std::vector<std::int64_t> shape{100};
    const OnGpu<float> data(100, 1.0F);
    const std::vector tensors{in_place(data, shape)};
    rank.expect_run({.name = "before", .tensors = tensors});
    set_capturing(machine, rank.stream().get(), true);
    const auto refused = rank.submit({.name = "conv1.weight", .tensors = tensors});
    set_capturing(machine, rank.stream().get(), false);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::kUnsupported);
    EXPECT_THAT(refused.error().message(), AllOf(HasSubstr("'conv1.weight'"), HasSubstr("torch.cuda.graph")));
    rank.expect_run({.name = "conv1.weight", .tensors = tensors});
    EXPECT_THAT(values_of(data), Each(4.0F));
  });
  expect_clean(machine);
}

// The default stream waits for the one that is captured.
TEST(GpuGraphs, AnOperationInTheDefaultStreamMeanwhileIsRefused) {
  MockMachine machine(1);
  const OnGpu<float> data(10);
  const auto provider = open_nccl(machine, {});
  const void* const addresses[] = {data.data()};
  set_capturing(machine, &machine, true);
  const auto mark = provider->admit(addresses, nullptr);
  set_capturing(machine, &machine, false);
  ASSERT_FALSE(mark);
  EXPECT_EQ(mark.error().code(), Code::kUnsupported);
  EXPECT_EQ(mock_cuda_api().get_last_error(), CudaError::kSuccess);
  EXPECT_TRUE(provider->admit(addresses, nullptr));
}

TEST(GpuGraphs, AMemberOfANetIsRefusedAndStays) {
  MockMachine machine(2);
  std::barrier allocated(2), all_done(2);  // the test's own allocations would spoil the captures
  run_members(machine, 2, [&](net::Net& net, int) {
    const OnGpu<float> data(10, 1.0F);
    const Stream stream;
    allocated.arrive_and_wait();
    const Collective sum = sum_of(data, stream);
    set_capturing(machine, stream.get(), true);
    EXPECT_EQ(net.run(sum, in(seconds(30))).error().code(), Code::kUnsupported);
    set_capturing(machine, stream.get(), false);
    EXPECT_TRUE(net.run(sum, in(seconds(30))));
    all_done.arrive_and_wait();
  });
  expect_clean(machine);
}

// Connecting allocates, and waiting queries events: both would invalidate a capture of another thread.
TEST(GpuGraphs, ACaptureElsewhereIsNotSpoiled) {
  for (const std::string requested : {"nccl", "staged"}) {
    MockMachine machine(2);
    for (MockFaults& faults : machine.faults) faults.copies_for = std::chrono::milliseconds(5);
    std::atomic<int> ready{0}, done{0};
    run_gpu_ranks(
        machine, 2,
        [&](GpuRank& rank) {
          const std::vector<std::int64_t> shape{1000};
          const OnGpu<float> data(1000, 1.0F);
          const std::vector tensors{in_place(data, shape)};
          if (++ready == 2) set_capturing(machine, &machine, true);
          while (ready < 2) std::this_thread::yield();
          for (int i = 0; i < 3; ++i) rank.expect_run({.name = "gradient", .tensors = tensors});
          EXPECT_THAT(values_of(data), Each(8.0F));
          if (++done == 2) set_capturing(machine, &machine, false);
          while (done < 2) std::this_thread::yield();
        },
        GpuUse{.requested = requested});
    expect_clean(machine);
  }
}

TEST(GpuContexts, ThereIsNoneButOnTheRanksGpu) {
  MockMachine machine(2);
  void* memory = nullptr;
  CudaStream stream = nullptr;
  const CudaApi cuda = mock_cuda_api();
  std::jthread([&] {
    (void)cuda.set_device(1);
    (void)cuda.malloc(&memory, 100);
    (void)cuda.stream_create_with_flags(&stream, 1);
  }).join();
  std::shared_ptr<const void> kept;
  std::jthread([&] {  // a thread that has not chosen a device, as programs have that say .to("cuda:1") only
    const auto provider = open_nccl(machine, {.local_rank = 1});
    const void* const addresses[] = {memory};
    auto mark = provider->admit(addresses, stream);
    ASSERT_TRUE(mark) << mark.error().message();
    EXPECT_EQ(mock_device(), 0) << "the thread's choice stays";
    kept = std::move(*mark);
  })
      .join();
  std::jthread([&] { kept.reset(); }).join();
  EXPECT_THAT(machine.contexts, ElementsAre(1));
  std::jthread([&] {
    (void)cuda.set_device(1);
    (void)cuda.free(memory);
    (void)cuda.stream_destroy(stream);
  }).join();
  EXPECT_EQ(machine.count(1, "event_record"), 1u);
  expect_clean(machine);
}

// PyTorch asks for the thread's last error after each kernel that it launches.
TEST(GpuErrors, OfXoesOwnCallsAreNotLeftBehind) {
  MockMachine machine(2);
  for (MockFaults& faults : machine.faults) faults.copies_for = std::chrono::milliseconds(20);
  std::barrier both(2);
  run_members(machine, 2, [&](net::Net& net, int member) {
    const OnGpu<float> data(10, 1.0F), late(10, 2.0F);
    const Stream stream;
    stream.copy(data.data(), late.data(), 40);  // events are not ready at first
    const Collective sum = sum_of(data, stream);
    EXPECT_TRUE(net.run(sum, in(seconds(30))));
    EXPECT_EQ(mock_cuda_api().get_last_error(), CudaError::kSuccess);
    both.arrive_and_wait();
    machine.faults[static_cast<std::size_t>(member)].querying = static_cast<CudaError>(700);
    EXPECT_FALSE(net.run(sum, in(seconds(30))));
    machine.faults[static_cast<std::size_t>(member)].querying = CudaError::kSuccess;
    EXPECT_EQ(mock_cuda_api().get_last_error(), CudaError::kSuccess) << "it was told";
  });
  expect_clean(machine);
}

}  // namespace
}  // namespace xoe::testing

// The engine on GPU memory: operations of every kind that it takes, of ranks that are threads, on the mock's GPUs.
#include <gmock/gmock.h>

#include <barrier>
#include <numeric>

#include "core/tests/nccl/gpu_ranks.h"

namespace xoe::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

TEST(GpuEngine, ReducesWhatAStreamIsStillMaking) {
  MockMachine machine(3);
  for (MockFaults& faults : machine.faults) faults.copies_for = std::chrono::milliseconds(30);
  run_gpu_ranks(machine, 3, [](GpuRank& rank) {
    const std::vector<std::int64_t> shape{100};
    const std::vector<float> made(100, static_cast<float>(rank.rank() + 1));
    const OnGpu<float> data(100);
    rank.stream().copy(data.data(), made.data(), 400);  // not done at the submit
    const std::vector tensors{in_place(data, shape)};
    rank.expect_run({.name = "gradient", .tensors = tensors});
    EXPECT_THAT(values_of(data), Each(6.0F));
    rank.expect_run({.name = "gradient",
                     .op = {.reduce = ReduceOp::kAverage, .prescale = 0.5, .postscale = 4.0},
                     .tensors = tensors});
    EXPECT_THAT(values_of(data), Each(12.0F));
  });
  expect_clean(machine);
}

// What the caller's stream gets after the submit neither is waited for nor waits.
TEST(GpuEngine, LeavesTheStreamToItsOwner) {
  MockMachine machine(2);
  run_gpu_ranks(machine, 2, [&](GpuRank& rank) {
    const std::vector<std::int64_t> shape{10};
    const OnGpu<float> data(10, 1.0F);
    const std::vector tensors{in_place(data, shape)};
    rank.expect_run({.name = "first", .tensors = tensors});  // connects
    rank.expect_run({.name = "second", .tensors = tensors});
    EXPECT_THAT(values_of(data), Each(4.0F));
    for (const MockCall& call : machine.calls_of(rank.rank()))
      EXPECT_FALSE(call.name == "stream_wait_event" && call.stream == rank.stream().get());
  });
  EXPECT_EQ(machine.count(0, "event_create_with_flags"), machine.count(0, "event_destroy"));
  expect_clean(machine);
}

TEST(GpuEngine, FusesWithoutPacking) {
  MockMachine machine(2);
  run_gpu_ranks(machine, 2, [](GpuRank& rank) {
    std::vector<std::unique_ptr<OnGpu<float>>> data;
    std::vector<std::vector<std::int64_t>> shapes;
    std::vector<EngineHandle> handles;
    for (std::int64_t n = 1; n <= 20; ++n) {
      data.push_back(std::make_unique<OnGpu<float>>(static_cast<std::size_t>(n), static_cast<float>(n)));
      shapes.push_back({n});
    }
    for (std::size_t i = 0; i < data.size(); ++i) {
      const std::vector tensors{in_place(*data[i], shapes[i])};
      // Half of them in another order, and half with a factor.
      auto handle = rank.submit(
          {.name = "t" + std::to_string(i), .op = {.prescale = i % 2 == 0 ? 1.0 : 2.0}, .tensors = tensors});
      ASSERT_TRUE(handle) << handle.error().message();
      handles.push_back(*handle);
    }
    for (std::size_t i = 0; i < data.size(); ++i) {
      ASSERT_TRUE(handles[i].wait());
      EXPECT_THAT(values_of(*data[i]), Each(static_cast<float>(i + 1) * (i % 2 == 0 ? 2.0F : 4.0F)));
    }
  });
  expect_clean(machine);
}

TEST(GpuEngine, MovesRows) {
  MockMachine machine(3);
  run_gpu_ranks(machine, 3, [](GpuRank& rank) {
    const auto mine = static_cast<std::size_t>(rank.rank() + 1);
    const std::vector<std::int64_t> shape{static_cast<std::int64_t>(mine), 2};
    const OnGpu<float> rows(mine * 2, static_cast<float>(rank.rank()));
    std::vector<std::unique_ptr<OnGpu<float>>> results;
    const OutputAllocator allocate = [&](std::size_t, std::span<const std::int64_t> result, DType) -> void* {
      (void)mock_cuda_api().set_device(rank.rank());  // whichever thread this is
      const auto count = std::accumulate(result.begin(), result.end(), std::int64_t{1}, std::multiplies<>());
      results.push_back(std::make_unique<OnGpu<float>>(static_cast<std::size_t>(count)));
      return results.back()->data();
    };
    std::vector<TensorArg> tensors{{rows.data(), nullptr, DType::kFloat32, shape}};
    rank.expect_run({.name = "rows", .op = {.kind = OpKind::kAllgather}, .tensors = tensors, .allocator = allocate});
    ASSERT_EQ(results.size(), 1U);
    EXPECT_THAT(values_of(*results[0]), ::testing::ElementsAre(0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2));

    const OnGpu<float> six(6, static_cast<float>(rank.rank()));
    const std::vector<std::int64_t> three_rows{3, 2};
    tensors = {{six.data(), nullptr, DType::kFloat32, three_rows}};
    rank.expect_run({.name = "all", .op = {.kind = OpKind::kAlltoall}, .tensors = tensors, .allocator = allocate});
    EXPECT_THAT(values_of(*results[1]), ::testing::ElementsAre(0, 0, 1, 1, 2, 2));

    const OnGpu<float> part(2);
    tensors = {{six.data(), part.data(), DType::kFloat32, three_rows}};
    rank.expect_run({.name = "part", .op = {.kind = OpKind::kReduceScatter, .postscale = 2.0}, .tensors = tensors});
    EXPECT_THAT(values_of(part), Each(6.0F));

    tensors = {in_place(six, three_rows)};
    rank.expect_run({.name = "root", .op = {.kind = OpKind::kBroadcast, .root = 2}, .tensors = tensors});
    EXPECT_THAT(values_of(six), Each(2.0F));
  });
  expect_clean(machine);
}

TEST(GpuEngine, AJoinedRankChangesNothing) {
  MockMachine machine(3);
  run_gpu_ranks(machine, 3, [](GpuRank& rank) {
    const std::vector<std::int64_t> shape{5};
    const OnGpu<float> data(5, 3.0F), least(5, -7.0F);
    if (rank.rank() != 1) {
      std::vector tensors{in_place(data, shape)};
      rank.expect_run({.name = "sum", .op = {.prescale = 2.0}, .tensors = tensors});
      EXPECT_THAT(values_of(data), Each(12.0F));
      tensors = {in_place(least, shape)};
      rank.expect_run({.name = "largest", .op = {.reduce = ReduceOp::kMax}, .tensors = tensors});
      EXPECT_THAT(values_of(least), Each(-7.0F));
    }
    auto joined = rank.runtime().submit({.op = {.kind = OpKind::kJoin}}, engine::Runtime::Use::kAsync);
    ASSERT_TRUE(joined);
    EXPECT_TRUE(rank.runtime().wait(**joined, std::nullopt));
  });
  expect_clean(machine);
}

// Sets that ranks enter in different orders: each lane has a thread of its own, and joining them blocks no rank.
TEST(GpuEngine, SetsConnectInAnyOrder) {
  MockMachine machine(2);
  run_gpu_ranks(machine, 2, [](GpuRank& rank) {
    const std::vector<int> both{0, 1};
    const auto set = rank.runtime().add_process_set(both);
    ASSERT_TRUE(set) << set.error().message();
    const std::vector<std::int64_t> shape{4};
    const OnGpu<float> a(4, 1.0F), b(4, 5.0F);
    const std::vector first{in_place(a, shape)}, second{in_place(b, shape)};
    std::vector<Request> requests{{.name = "a", .tensors = first},
                                  {.name = "b", .tensors = second, .process_set = *set}};
    if (rank.rank() == 1) std::swap(requests[0], requests[1]);
    std::vector<EngineHandle> handles;
    for (const Request& request : requests) handles.push_back(rank.submit(request).value());
    for (EngineHandle& handle : handles) EXPECT_TRUE(handle.wait());
    EXPECT_THAT(values_of(a), Each(2.0F));
    EXPECT_THAT(values_of(b), Each(10.0F));
  });
  expect_clean(machine);
}

TEST(GpuEngine, SaysWhatItDoesNotTake) {
  MockMachine machine(1);
  run_gpu_ranks(machine, 1, [](GpuRank& rank) {
    const std::vector<std::int64_t> shape{4};
    const auto refusal = [&](const Request& request) {
      auto handle = rank.submit(request);
      if (!handle) return handle.error().message();
      const Status status = handle->wait();
      return status ? std::string("taken") : status.error().message();
    };
    const OnGpu<float> data(4);
    std::vector<float> host(4);
    std::vector tensors{in_place(data, shape)};
    EXPECT_THAT(refusal({.name = "x", .op = {.kind = OpKind::kAdasum}, .tensors = tensors}),
                HasSubstr("adasum takes no GPU memory"));
    EXPECT_THAT(refusal({.name = "x", .op = {.compression = {.kind = Compression::kBfloat16}}, .tensors = tensors}),
                HasSubstr("allreduce with compression takes no GPU memory"));
    tensors = {{data.data(), nullptr, DType::kFloat32, shape}};
    EXPECT_THAT(refusal({.name = "x", .op = {.kind = OpKind::kAllgather}, .tensors = tensors}),
                HasSubstr("no allocator"));
    tensors = {{host.data(), host.data(), DType::kFloat32, shape}};
    EXPECT_THAT(refusal({.name = "x", .tensors = tensors}),
                AllOf(HasSubstr("allreduce 'x'"), HasSubstr("was passed as GPU memory, but is host memory")));
    tensors = {in_place(data, shape)};
    EXPECT_EQ(refusal({.name = "x", .tensors = tensors}), "taken");
  });
  expect_clean(machine);
}

TEST(GpuEngine, RanksAgreeOnWhereATensorIs) {
  MockMachine machine(2);
  run_gpu_ranks(machine, 2, [](GpuRank& rank) {
    const std::vector<std::int64_t> shape{4};
    const OnGpu<float> data(4);
    std::vector<float> host(4);
    const bool here = rank.rank() == 0;
    const std::vector<TensorArg> tensors{here ? TensorArg{host.data(), host.data(), DType::kFloat32, shape}
                                              : in_place(data, shape)};
    Request request{.name = "x", .op = {.gpu = !here}, .tensors = tensors, .stream = rank.stream().get()};
    auto submission = rank.runtime().submit(request, engine::Runtime::Use::kAsync);
    ASSERT_TRUE(submission);
    const Status status = rank.runtime().wait(**submission, std::nullopt);
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message(), AllOf(HasSubstr("rank 0 submitted allreduce(float32 [4], sum)"),
                                                HasSubstr("rank 1 submitted allreduce(float32 [4], sum, on a GPU)")));
  });
  expect_clean(machine);
}

TEST(GpuEngine, AFailureOfNcclEndsTheSetEverywhere) {
  MockMachine machine(3);
  machine.faults[1].launch = NcclResult::kInternalError;
  run_gpu_ranks(machine, 3, [](GpuRank& rank) {
    const std::vector<std::int64_t> shape{4};
    const OnGpu<float> data(4);
    const std::vector tensors{in_place(data, shape)};
    const Status status = rank.run({.name = "x", .tensors = tensors});
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message(), AllOf(HasSubstr("x"), HasSubstr("NCCL")));
    EXPECT_FALSE(rank.run({.name = "y", .tensors = tensors}));
  });
  for (const std::string& misuse : machine.misuses()) ADD_FAILURE() << misuse;
}

TEST(GpuEngine, SaysWhyNcclCannotJoinRanks) {
  MockMachine machine(1);
  run_gpu_ranks(machine, 2,
                [](GpuRank& rank) {
                  const std::vector<std::int64_t> shape{4};
                  const OnGpu<float> data(4);
                  const std::vector tensors{in_place(data, shape)};
                  const Status status = rank.run({.name = "x", .tensors = tensors});
                  ASSERT_FALSE(status);
                  EXPECT_THAT(status.error().message(),
                              AllOf(HasSubstr("rank 0 ("), HasSubstr("and rank 1 ("), HasSubstr("have the same GPU"),
                                    HasSubstr("leave XOE_GPU")));
                },
                {.requested = "nccl"});
  EXPECT_EQ(machine.count(0, "join"), 0U);
  expect_clean(machine);
}

TEST(GpuEngine, ARankThatLeavesEndsWhatOthersWaitFor) {
  MockMachine machine(3);
  std::barrier both(2);
  run_gpu_ranks(machine, 3, [&](GpuRank& rank) {
    const std::vector<std::int64_t> shape{4};
    const OnGpu<float> data(4, 1.0F);
    const std::vector tensors{in_place(data, shape)};
    rank.expect_run({.name = "x", .tensors = tensors});
    if (rank.rank() == 2) return rank.runtime().shut_down();
    const Status status = rank.run({.name = "y", .tensors = tensors});
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::kPeerLost);
    EXPECT_THAT(status.error().message(), HasSubstr("rank 2"));
    both.arrive_and_wait();  // the other's end is not the cause
  });
  expect_clean(machine);
}

TEST(GpuEngine, WithoutAGpuNoneIsRequired) {
  auto group = make_group(1);
  const auto gpu = std::make_shared<engine::GpuPlugin>(
      []() -> Result<std::unique_ptr<net::Provider>> { return failure(Code::kUnsupported, "no GPU here"); });
  auto runtime = engine::Runtime::create(std::move(group[0]), {}, gpu).value();
  std::vector<float> data(4, 1.0F);
  const std::vector<std::int64_t> shape{4};
  const std::vector<TensorArg> tensors{{data.data(), data.data(), DType::kFloat32, shape}};
  EXPECT_TRUE(runtime->submit({.name = "host", .tensors = tensors}, engine::Runtime::Use::kAsync));
  const auto refused =
      runtime->submit({.name = "x", .op = {.gpu = true}, .tensors = tensors}, engine::Runtime::Use::kAsync);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kUnsupported);
  EXPECT_THAT(refused.error().message(), AllOf(HasSubstr("allreduce 'x'"), HasSubstr("no GPU here")));
  EXPECT_FALSE(runtime->takes_gpu_memory());
  runtime->shut_down();
}

}  // namespace
}  // namespace xoe::testing

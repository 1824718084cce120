// GPU memory that passes through pinned host memory, because ranks share a GPU or NCCL is not there: the results are
// those of host memory, to the bit.
#include <gmock/gmock.h>

#include <cstring>
#include <latch>
#include <mutex>
#include <numeric>
#include <random>

#include "core/reduce/reduce.h"
#include "core/tests/engine/warnings.h"
#include "core/tests/nccl/gpu_ranks.h"

namespace xoe::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Bytes = std::vector<std::byte>;
using Shape = std::vector<std::int64_t>;

constexpr std::size_t kSmall = std::size_t{64} << 10;  // of pinned memory: large tensors take many rounds

bool is_float(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBfloat16 || dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

// Values whose sums depend on the order.
Bytes random_bytes(DType dtype, std::size_t count, int seed) {
  std::mt19937_64 random(static_cast<std::uint64_t>(seed) * 1000003 + count);
  Bytes bytes(count * dtype_size(dtype));
  if (count == 0) return bytes;
  if (is_float(dtype)) {
    std::vector<double> wide(count);
    for (double& x : wide) x = std::uniform_real_distribution<>(-3, 3)(random);
    if (dtype == DType::kFloat64)
      std::memcpy(bytes.data(), wide.data(), bytes.size());
    else
      reduce::cast(wide.data(), DType::kFloat64, bytes.data(), dtype, count);
    return bytes;
  }
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % (dtype == DType::kBool ? 2 : 256));
  return bytes;
}

// Runs operations twice, on host memory and on GPU memory, and compares what they give.
class Twice {
 public:
  explicit Twice(GpuRank& rank) : rank_(rank) {}

  // in: of this rank; in place where the operation allows it.
  void expect_same(const OpSpec& op, DType dtype, const Bytes& in, const Shape& shape, bool in_place,
                   std::span<const std::int64_t> splits = {}) {
    const Bytes host = run(op, dtype, in, shape, in_place, splits, false);
    const Bytes gpu = run(op, dtype, in, shape, in_place, splits, true);
    ASSERT_EQ(host.size(), gpu.size());
    if (!host.empty()) {
      EXPECT_EQ(std::memcmp(host.data(), gpu.data(), host.size()), 0)
          << op_kind_name(op.kind) << " " << dtype_name(dtype) << " " << reduce_op_name(op.reduce);
    }
  }

 private:
  Bytes run(OpSpec op, DType dtype, const Bytes& in, const Shape& shape, bool in_place,
            std::span<const std::int64_t> splits, bool gpu) {
    op.gpu = gpu;
    const OnGpu<std::byte> data(in.size()), other(in_place ? 0 : in.size());
    std::copy(in.begin(), in.end(), data.data());
    std::unique_ptr<OnGpu<std::byte>> made;
    Bytes result;
    const OutputAllocator allocate = [&](std::size_t, std::span<const std::int64_t> dims, DType) -> void* {
      (void)mock_cuda_api().set_device(0);
      const auto count = std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
      made = std::make_unique<OnGpu<std::byte>>(static_cast<std::size_t>(count) * dtype_size(dtype));
      return made->data();
    };
    const bool makes_output =
        op.kind == OpKind::kAllgather || op.kind == OpKind::kAlltoall || op.kind == OpKind::kReduceScatter;
    std::byte* const out = makes_output ? nullptr : in_place ? data.data() : other.data();
    const std::vector<TensorArg> tensors{{data.data(), out, dtype, shape}};
    Request request{.name = gpu ? "gpu" : "host", .op = op, .tensors = tensors, .splits = splits};
    if (makes_output) request.allocator = allocate;
    Status status;
    if (gpu) {
      status = rank_.run(request);
    } else {
      auto submission = rank_.runtime().submit(request, engine::Runtime::Use::kAsync);
      EXPECT_TRUE(submission);
      status = rank_.runtime().wait(**submission, std::nullopt);
    }
    EXPECT_TRUE(status) << status.error().message();
    const std::byte* const from = makes_output ? (made ? made->data() : nullptr) : out;
    const std::size_t bytes = makes_output ? (made ? made->size() : 0) : in.size();
    return from == nullptr ? Bytes() : Bytes(from, from + bytes);
  }

  GpuRank& rank_;
};

TEST(GpuStaging, TwoRanksShareAGpu) {
  MockMachine machine(1);
  Warnings said;
  run_gpu_ranks(machine, 2,
                [](GpuRank& rank) {
                  const Shape shape{1000};
                  const OnGpu<float> data(1000, static_cast<float>(rank.rank() + 1));
                  const std::vector tensors{in_place(data, shape)};
                  for (int step = 0; step < 3; ++step) rank.expect_run({.name = "gradient", .tensors = tensors});
                  EXPECT_THAT(values_of(data), Each(12.0F));
                  EXPECT_THAT(rank.runtime().metrics(),
                              AllOf(HasSubstr(R"(transport="staged"} 3)"), HasSubstr(R"(transport="nccl"} 0)")));
                },
                {.warn = said.listener()});
  ASSERT_EQ(said.lines().size(), 1U);
  EXPECT_THAT(said.lines()[0],
              AllOf(HasSubstr("GPU tensors of 2 ranks pass through pinned host memory: rank 0 ("),
                    HasSubstr("and rank 1 ("), HasSubstr("have the same GPU, " + MockMachine::uuid(0))));
  EXPECT_EQ(machine.count(0, "join"), 0U);  // NCCL was not asked: it would refuse
  expect_clean(machine);
}

TEST(GpuStaging, ReducesEveryTypeAsHostMemoryIs) {
  MockMachine machine(1);
  run_gpu_ranks(machine, 3,
                [](GpuRank& rank) {
                  Twice twice(rank);
                  for (int d = 0; d < kDTypeCount; ++d)
                    for (int o = 0; o < kReduceOpCount; ++o) {
                      const auto dtype = static_cast<DType>(d);
                      const auto op = static_cast<ReduceOp>(o);
                      if (!reduce::supports(dtype, op)) continue;
                      for (const std::size_t count : {0, 1, 2, 3, 1000, 100003}) {
                        const Bytes in = random_bytes(dtype, count, rank.rank());
                        const Shape shape{static_cast<std::int64_t>(count)};
                        twice.expect_same({.reduce = op}, dtype, in, shape, count % 2 == 0);
                        if (dtype == DType::kBool || count != 1000) continue;
                        twice.expect_same({.reduce = op, .prescale = -0.5, .postscale = 3}, dtype, in, shape, true);
                      }
                    }
                },
                {.staging_bytes = kSmall});
  expect_clean(machine);
}

TEST(GpuStaging, MovesRowsAsHostMemoryDoes) {
  MockMachine machine(1);
  run_gpu_ranks(
      machine, 3,
      [](GpuRank& rank) {
        Twice twice(rank);
        for (const DType dtype : {DType::kUint8, DType::kBfloat16, DType::kInt64})
          for (const std::int64_t rows : {0, 1, 2, 3, 700, 20011}) {
            const auto mine = rows * (rank.rank() == 1 ? 0 : rank.rank() + 1);  // uneven, and one is empty
            const auto of = [&](std::int64_t n) {
              return random_bytes(dtype, static_cast<std::size_t>(n * 3), rank.rank());
            };
            twice.expect_same({.kind = OpKind::kAllgather}, dtype, of(mine), {mine, 3}, false);
            twice.expect_same({.kind = OpKind::kReduceScatter}, dtype, of(rows), {rows, 3}, false);
            for (int root = 0; root < 3; ++root)
              twice.expect_same({.kind = OpKind::kBroadcast, .root = root}, dtype, of(rows), {rows, 3}, root == 1);
            // Only rank 0 sends much, and only to rank 2.
            const std::vector<std::int64_t> splits{1, rank.rank() == 2 ? 4 : 0, rank.rank() == 0 ? rows : 2};
            const auto sent = std::accumulate(splits.begin(), splits.end(), std::int64_t{0});
            twice.expect_same({.kind = OpKind::kAlltoall}, dtype, of(sent), {sent, 3}, false, splits);
          }
      },
      {.staging_bytes = kSmall});
  expect_clean(machine);
}

TEST(GpuStaging, ReducesWhatAStreamIsStillMaking) {
  MockMachine machine(1);
  machine.faults[0].copies_for = std::chrono::milliseconds(20);
  run_gpu_ranks(machine, 2, [](GpuRank& rank) {
    const Shape shape{100};
    const std::vector<float> made(100, static_cast<float>(rank.rank() + 1));
    const OnGpu<float> data(100), copy(100);
    rank.stream().copy(data.data(), made.data(), 400);  // not done at the submit
    const std::vector tensors{in_place(data, shape)};
    rank.expect_run({.name = "gradient", .tensors = tensors});
    rank.stream().copy(copy.data(), data.data(), 400);  // the result is there for every stream
    rank.stream().wait();
    EXPECT_THAT(values_of(copy), Each(3.0F));
  });
  expect_clean(machine);
}

// What the caller's stream gets after the submit neither is waited for nor waits.
TEST(GpuStaging, LeavesTheStreamToItsOwner) {
  MockMachine machine(2);
  run_gpu_ranks(machine, 2,
                [&](GpuRank& rank) {
                  const Shape shape{10};
                  const OnGpu<float> data(10, 1.0F);
                  const std::vector tensors{in_place(data, shape)};
                  rank.expect_run({.name = "first", .tensors = tensors});
                  for (const MockCall& call : machine.calls_of(rank.rank()))
                    EXPECT_FALSE(call.name == "stream_wait_event" && call.stream == rank.stream().get());
                },
                {.requested = "staged"});
  expect_clean(machine);
}

// The submit does not wait for the stream, and so not for the operation.
TEST(GpuStaging, SubmittingDoesNotWait) {
  MockMachine machine(1);
  std::latch all_submitted(2);
  run_gpu_ranks(machine, 2, [&](GpuRank& rank) {
    const Shape shape{10};
    const OnGpu<float> data(10, 1.0F);
    const std::vector tensors{in_place(data, shape)};
    (void)mock_cuda_api().launch_host_func(
        rank.stream().get(), [](void* latch) { static_cast<std::latch*>(latch)->wait(); }, &all_submitted);
    auto handle = rank.submit({.name = "x", .tensors = tensors});
    ASSERT_TRUE(handle);
    EXPECT_FALSE(handle->poll());
    all_submitted.count_down();
    EXPECT_TRUE(handle->wait());
    EXPECT_THAT(values_of(data), Each(2.0F));
  });
  expect_clean(machine);
}

TEST(GpuStaging, CopiesTheNextPartWhileTheHostReduces) {
  MockMachine machine(2);
  std::latch released(1);
  run_gpu_ranks(machine, 2,
                [&](GpuRank& rank) {
                  const std::size_t count = kSmall;  // 8 rounds
                  const Shape shape{static_cast<std::int64_t>(count)};
                  const OnGpu<float> data(count, 1.0F);
                  const std::vector tensors{in_place(data, shape)};
                  // The other rank's tensor is late, so the first reduction cannot be done.
                  if (rank.rank() == 1)
                    (void)mock_cuda_api().launch_host_func(
                        rank.stream().get(), [](void* latch) { static_cast<std::latch*>(latch)->wait(); }, &released);
                  auto handle = rank.submit({.name = "x", .tensors = tensors});
                  ASSERT_TRUE(handle);
                  if (rank.rank() == 0) {
                    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
                    while (machine.count(0, "memcpy_async") < 2 && std::chrono::steady_clock::now() < deadline)
                      (void)handle->poll();
                    EXPECT_EQ(machine.count(0, "memcpy_async"), 2U);  // and no more than there are slots
                    EXPECT_FALSE(handle->poll());
                    released.count_down();
                  }
                  EXPECT_TRUE(handle->wait());
                  EXPECT_THAT(values_of(data), Each(2.0F));
                },
                {.requested = "staged", .staging_bytes = kSmall});
  EXPECT_EQ(machine.count(0, "memcpy_async"), 16U);
  expect_clean(machine);
}

TEST(GpuStaging, PinsNoMoreThanItMay) {
  MockMachine machine(1);
  run_gpu_ranks(
      machine, 2,
      [&](GpuRank& rank) {
        const Shape shape{1000000};
        const OnGpu<float> data(1000000, 1.0F);
        const std::vector tensors{in_place(data, shape)};
        rank.expect_run({.name = "x", .tensors = tensors});
        const std::lock_guard lock(machine.mutex);
        std::size_t pinned = 0;
        for (const auto& [address, allocation] : machine.allocations) pinned += allocation.host ? allocation.bytes : 0;
        EXPECT_LE(pinned, 2 * kSmall);
      },
      [](int rank) {  // the least of all ranks counts
        return GpuUse{.staging_bytes = rank == 0 ? kSmall : std::size_t{1} << 20};
      });
  expect_clean(machine);
}

TEST(GpuStaging, FusesSmallTensorsAndOverlapsLargeOnes) {
  MockMachine machine(1);
  run_gpu_ranks(
      machine, 2,
      [](GpuRank& rank) {
        std::vector<std::unique_ptr<OnGpu<float>>> data;
        std::vector<Shape> shapes;
        std::vector<EngineHandle> handles;
        for (std::int64_t n = 1; n <= 40; ++n) {
          const std::int64_t count = n % 10 == 0 ? 400000 : n;
          data.push_back(std::make_unique<OnGpu<float>>(static_cast<std::size_t>(count), static_cast<float>(n)));
          shapes.push_back({count});
        }
        for (std::size_t i = 0; i < data.size(); ++i) {
          const std::size_t at = rank.rank() == 0 ? i : data.size() - 1 - i;
          const std::vector tensors{in_place(*data[at], shapes[at])};
          auto handle = rank.submit(
              {.name = "t" + std::to_string(at), .op = {.prescale = at % 2 == 0 ? 1.0 : 2.0}, .tensors = tensors});
          ASSERT_TRUE(handle) << handle.error().message();
          handles.push_back(*handle);
        }
        for (EngineHandle& handle : handles) ASSERT_TRUE(handle.wait());
        for (std::size_t i = 0; i < data.size(); ++i)
          EXPECT_THAT(values_of(*data[i]), Each(static_cast<float>(i + 1) * (i % 2 == 0 ? 2.0F : 4.0F)));
      },
      {.staging_bytes = kSmall});
  expect_clean(machine);
}

TEST(GpuStaging, AJoinedRankChangesNothing) {
  MockMachine machine(1);
  run_gpu_ranks(machine, 3, [](GpuRank& rank) {
    const Shape shape{3, 2};
    const OnGpu<float> data(6, 3.0F), least(6, -7.0F), part(2);
    if (rank.rank() != 1) {
      std::vector tensors{in_place(data, shape)};
      rank.expect_run({.name = "sum", .op = {.prescale = 2.0}, .tensors = tensors});
      EXPECT_THAT(values_of(data), Each(12.0F));
      tensors = {in_place(least, shape)};
      rank.expect_run({.name = "largest", .op = {.reduce = ReduceOp::kMax}, .tensors = tensors});
      EXPECT_THAT(values_of(least), Each(-7.0F));
      tensors = {{data.data(), part.data(), DType::kFloat32, shape}};
      rank.expect_run({.name = "part", .op = {.kind = OpKind::kReduceScatter}, .tensors = tensors});
      EXPECT_THAT(values_of(part), Each(24.0F));
    }
    auto joined = rank.runtime().submit({.op = {.kind = OpKind::kJoin}}, engine::Runtime::Use::kAsync);
    ASSERT_TRUE(joined);
    EXPECT_TRUE(rank.runtime().wait(**joined, std::nullopt));
  });
  expect_clean(machine);
}

// A set whose ranks have GPUs of their own takes NCCL, though others of the job share one.
TEST(GpuStaging, EachProcessSetChoosesForItself) {
  MockMachine machine(2);
  run_gpu_ranks(machine, 3, [](GpuRank& rank) {
    const std::vector<int> apart{0, 1};
    const auto set = rank.runtime().add_process_set(apart);
    ASSERT_TRUE(set) << set.error().message();
    const Shape shape{4};
    const OnGpu<float> data(4, 1.0F);
    const std::vector tensors{in_place(data, shape)};
    rank.expect_run({.name = "all", .tensors = tensors});
    EXPECT_THAT(values_of(data), Each(3.0F));
    EXPECT_THAT(rank.runtime().metrics(), HasSubstr(R"(transport="staged"} 1)"));
    if (rank.rank() == 2) return;
    rank.expect_run({.name = "two", .tensors = tensors, .process_set = *set});
    EXPECT_THAT(values_of(data), Each(6.0F));
    EXPECT_THAT(rank.runtime().metrics(), HasSubstr(R"(transport="nccl"} 1)"));
  });
  expect_clean(machine);
}

// NCCL joins these ranks, but does not add 16-bit integers, nor averages integers, nor scales halves.
TEST(GpuStaging, MakesWhatNcclLacks) {
  MockMachine machine(2);
  run_gpu_ranks(machine, 2, [](GpuRank& rank) {
    Twice twice(rank);
    const Shape shape{1000};
    const auto check = [&](const OpSpec& op, DType dtype) {
      twice.expect_same(op, dtype, random_bytes(dtype, 1000, rank.rank()), shape, true);
    };
    check({.reduce = ReduceOp::kSum}, DType::kInt16);
    check({.reduce = ReduceOp::kAverage}, DType::kInt64);
    check({.prescale = 0.5}, DType::kFloat16);
    check({.reduce = ReduceOp::kMax, .prescale = -1, .postscale = -1}, DType::kFloat32);
    EXPECT_THAT(rank.runtime().metrics(),
                AllOf(HasSubstr(R"(transport="staged"} 4)"), HasSubstr(R"(transport="nccl"} 0)")));
    check({.reduce = ReduceOp::kMax}, DType::kInt32);
    EXPECT_THAT(rank.runtime().metrics(), HasSubstr(R"(transport="nccl"} 1)"));
  });
  expect_clean(machine);
}

// Runs an allreduce of two ranks; returns what was said, or the error.
std::string transport_of(MockMachine& machine, const std::function<GpuUse(int)>& use_of, std::string& warned) {
  Warnings said;
  std::string result = "done";
  run_gpu_ranks(
      machine, 2,
      [&](GpuRank& rank) {
        const Shape shape{4};
        const OnGpu<float> data(4, 1.0F);
        const std::vector tensors{in_place(data, shape)};
        const Status status = rank.run({.name = "x", .tensors = tensors});
        if (!status && rank.rank() == 0) result = status.error().message();
        EXPECT_THAT(values_of(data), Each(status ? 2.0F : 1.0F));
      },
      [&](int rank) {
        GpuUse use = use_of(rank);
        use.warn = said.listener();
        return use;
      });
  warned = said.lines().empty() ? "" : said.lines()[0];
  return result;
}

TEST(GpuStaging, WithoutNccl) {
  MockMachine machine(2);
  std::string warned;
  EXPECT_EQ(transport_of(
                machine, [](int rank) { return GpuUse{.has_nccl = rank == 0}; }, warned),
            "done");
  EXPECT_THAT(warned, AllOf(HasSubstr("rank 1 ("), HasSubstr("has no NCCL: no libnccl.so.2 here")));
  EXPECT_THAT(transport_of(
                  machine, [](int rank) { return GpuUse{.requested = "nccl", .has_nccl = rank == 0}; }, warned),
              AllOf(HasSubstr("rank 1 ("), HasSubstr("has no NCCL")));
  EXPECT_EQ(machine.count(0, "join"), 0U);
  expect_clean(machine);
}

TEST(GpuStaging, WhereNcclRefuses) {
  for (const int version : {nccl_version(2, 30, 7), nccl_version(2, 10, 3)}) {
    MockMachine machine(2, version);
    machine.faults[1].joining = NcclResult::kInvalidUsage;
    std::string warned;
    EXPECT_EQ(transport_of(
                  machine, [](int) { return GpuUse(); }, warned),
              "done");
    EXPECT_THAT(warned, AllOf(HasSubstr("rank 0 ("), HasSubstr("invalid usage")));
    EXPECT_THAT(transport_of(
                    machine, [](int) { return GpuUse{.requested = "nccl"}; }, warned),
                AllOf(HasSubstr("invalid usage"), HasSubstr("XOE_GPU=nccl")));
    expect_clean(machine);
  }
}

TEST(GpuStaging, AsTheUserWishes) {
  MockMachine machine(2);
  std::string warned;
  EXPECT_EQ(transport_of(
                machine, [](int) { return GpuUse{.requested = "staged"}; }, warned),
            "done");
  EXPECT_EQ(machine.count(0, "join"), 0U);
  EXPECT_THAT(warned, IsEmpty());
  EXPECT_EQ(transport_of(
                machine, [](int rank) { return GpuUse{.requested = rank == 1 ? "staged" : "auto"}; }, warned),
            "done");
  EXPECT_EQ(machine.count(0, "join"), 0U);
  EXPECT_THAT(warned, HasSubstr("has XOE_GPU=staged"));
  EXPECT_THAT(transport_of(
                  machine, [](int rank) { return GpuUse{.requested = rank == 1 ? "staged" : "nccl"}; }, warned),
              AllOf(HasSubstr("XOE_GPU=nccl, rank 1"), HasSubstr("has XOE_GPU=staged")));
  expect_clean(machine);
}

// NCCL_MULTI_RANK_GPU_ENABLE=1: the user has told NCCL to do it.
TEST(GpuStaging, NcclMayBeToldToShareAGpu) {
  MockMachine machine(1);
  machine.shares_gpus = true;
  std::string warned;
  EXPECT_EQ(transport_of(
                machine, [](int) { return GpuUse{.many_ranks = true}; }, warned),
            "done");
  EXPECT_EQ(machine.count(0, "join"), 2U);
  EXPECT_THAT(warned, IsEmpty());
  expect_clean(machine);
  MockMachine old(1, nccl_version(2, 29, 2));
  EXPECT_EQ(transport_of(
                old, [](int) { return GpuUse{.many_ranks = true}; }, warned),
            "done");
  EXPECT_EQ(old.count(0, "join"), 0U);
  EXPECT_THAT(warned, HasSubstr("have the same GPU"));
}

}  // namespace
}  // namespace xoe::testing

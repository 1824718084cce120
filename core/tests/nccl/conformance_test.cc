// Right results for all collectives, types and reductions that NCCL has, on the mock, in several versions.
#include "core/base/float16.h"
#include "core/reduce/reduce.h"
#include "core/tests/nccl/members.h"
#include "core/tests/net/net_conformance.h"

namespace xoe::testing {
namespace {

constexpr bool kSanitized = XOE_SANITIZED != 0;

// What net_grid() has, without the pairs that NCCL cannot do as promised.
std::vector<NetGrid> grids(int size, bool modern) {
  const auto counts = net_grid(size).counts;
  const std::vector<ReduceOp> all{ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax,
                                  ReduceOp::kProduct};
  const std::vector<ReduceOp> plain{ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};
  if (kSanitized)
    return {{{0, 1, 1000}, {DType::kFloat32, DType::kFloat16}, modern ? all : plain}, {{1000}, {DType::kBool}, plain}};
  std::vector<DType> floats{DType::kFloat16, DType::kFloat32, DType::kFloat64};
  if (modern) floats.push_back(DType::kBfloat16);
  return {{counts, floats, modern ? all : plain},
          {counts, {DType::kUint8, DType::kInt8, DType::kInt32, DType::kInt64, DType::kBool}, plain},
          {counts, {DType::kInt16}, {}}};
}

struct Case {
  int size, version;
};

class NcclConformance : public ::testing::TestWithParam<Case> {};

TEST_P(NcclConformance, ThroughGpuMemory) {
  const auto [size, version] = GetParam();
  MockMachine machine(size, version);
  run_members(machine, size, [&](net::Net& net, int member) {
    ThroughGpu through(net);
    for (const NetGrid& grid : grids(size, version >= nccl_version(2, 10, 0)))
      EXPECT_EQ(check_net(through, size, member, grid), "");
  });
  expect_clean(machine);
}

INSTANTIATE_TEST_SUITE_P(Sizes, NcclConformance,
                         ::testing::Values(Case{1, 23007}, Case{2, 23007}, Case{3, 23007}, Case{4, 23007},
                                           Case{2, 2708}, Case{3, 21003}, Case{3, 21403}, Case{2, 21903}));

// A stream that is slow to write what is reduced.
TEST(NcclStreams, ProducersAreWaitedFor) {
  MockMachine machine(2);
  machine.faults[0].copies_for = milliseconds(100);
  run_members(machine, 2, [](net::Net& net, int member) {
    ThroughGpu through(net);
    std::vector<float> data(1000, static_cast<float>(member + 1));
    Collective c = gpu_allreduce(data.data(), data.size());
    c.device = false;
    ASSERT_TRUE(through.run(c, in(seconds(30))));
    EXPECT_EQ(std::ranges::count(data, 3.0f), 1000);
  });
  expect_clean(machine);
}

// What ranks tell each other in host memory.
TEST(NcclWords, GoThroughTheGpu) {
  constexpr int kSize = 3;
  MockMachine machine(kSize);
  const NetGrid words{{0, 1, 100}, {DType::kUint8, DType::kInt64}, {}};
  run_members(machine, kSize, [&](net::Net& net, int member) { EXPECT_EQ(check_net(net, kSize, member, words), ""); });
  expect_clean(machine);
}

template <class T>
void expect_factor(DType dtype, ReduceOp op, double factor, T expected) {
  MockMachine machine(2);
  run_members(machine, 2, [&](net::Net& net, int member) {
    const OnGpu<T> data(100, static_cast<T>(member == 0 ? 2 : 6));
    const Collective c{.kind = CollectiveKind::kAllreduce,
                       .dtype = dtype,
                       .op = op,
                       .in = data.data(),
                       .out = data.data(),
                       .in_count = 100,
                       .out_count = 100,
                       .device = true,
                       .prescale = factor};
    const Status status = net.run(c, in(seconds(30)));
    ASSERT_TRUE(status) << status.error().message();
    for (std::size_t i = 0; i < data.size(); ++i) ASSERT_EQ(data[i], expected) << i;
  });
  EXPECT_EQ(machine.count(0, "ncclRedOpCreatePreMulSum"), 1u);
  expect_clean(machine);
}

TEST(NcclFactor, IsApplied) {
  expect_factor<float>(DType::kFloat32, ReduceOp::kSum, 0.5, 4);
  expect_factor<float>(DType::kFloat32, ReduceOp::kAverage, 3, 12);
  expect_factor<double>(DType::kFloat64, ReduceOp::kSum, 0.25, 2);
  expect_factor<Float16>(DType::kFloat16, ReduceOp::kSum, 0.5, static_cast<Float16>(4));
}

}  // namespace
}  // namespace xoe::testing
